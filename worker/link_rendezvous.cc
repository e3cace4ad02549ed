#include "worker/link_rendezvous.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace pipestage {

absl::Status LinkRendezvous::Set(const std::string& key, std::string value) {
  {
    absl::MutexLock lock(&mu_);
    if (!closed_.ok()) return closed_;
  }
  v1::WorkerMessage message;
  message.mutable_store_set()->set_key(key);
  message.mutable_store_set()->set_value(std::move(value));
  outbox_->Send(std::move(message));
  return absl::OkStatus();
}

absl::StatusOr<std::string> LinkRendezvous::Get(const std::string& key,
                                                absl::Duration timeout) {
  int64_t id;
  {
    absl::MutexLock lock(&mu_);
    if (!closed_.ok()) return closed_;
    id = next_request_id_++;
    waiting_.emplace(id, std::nullopt);
  }
  v1::WorkerMessage message;
  message.mutable_store_get()->set_request_id(id);
  message.mutable_store_get()->set_key(key);
  outbox_->Send(std::move(message));

  absl::MutexLock lock(&mu_);
  std::optional<std::string>& value = waiting_.at(id);
  const auto answered = [this, &value]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return value.has_value() || !closed_.ok();
  };
  mu_.AwaitWithTimeout(absl::Condition(&answered), timeout);
  std::optional<std::string> result = std::move(value);
  waiting_.erase(id);
  if (result.has_value()) return *std::move(result);
  if (!closed_.ok()) return closed_;
  return absl::DeadlineExceededError(absl::StrCat(
      "rendezvous: no value for ", key, " in ", absl::FormatDuration(timeout)));
}

void LinkRendezvous::OnValue(v1::StoreValue value) {
  absl::MutexLock lock(&mu_);
  const auto it = waiting_.find(value.request_id());
  if (it != waiting_.end()) it->second = std::move(*value.mutable_value());
}

void LinkRendezvous::Close(absl::string_view reason) {
  absl::MutexLock lock(&mu_);
  if (closed_.ok()) {
    closed_ = absl::CancelledError(absl::StrCat("rendezvous: ", reason));
  }
}

}  // namespace pipestage
