#include "worker/transport/in_memory_rendezvous.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace pipestage {

absl::Status InMemoryRendezvous::Set(const std::string& key,
                                     std::string value) {
  absl::MutexLock lock(&mu_);
  if (closed_) return absl::CancelledError("the rendezvous is closed");
  values_[key] = std::move(value);
  return absl::OkStatus();
}

absl::StatusOr<std::string> InMemoryRendezvous::Get(const std::string& key,
                                                    absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  auto there = [this, &key]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return closed_ || values_.contains(key);
  };
  const bool in_time = mu_.AwaitWithTimeout(absl::Condition(&there), timeout);
  if (closed_) return absl::CancelledError("the rendezvous is closed");
  if (!in_time) {
    return absl::DeadlineExceededError(
        absl::StrCat("key \"", key, "\" was not set within ",
                     absl::FormatDuration(timeout)));
  }
  return values_[key];
}

void InMemoryRendezvous::Close() {
  absl::MutexLock lock(&mu_);
  closed_ = true;
}

}  // namespace pipestage
