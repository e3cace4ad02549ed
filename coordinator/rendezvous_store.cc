#include "coordinator/rendezvous_store.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace pipestage {

void RendezvousStore::Begin(std::string prefix) {
  prefix_ = std::move(prefix);
  values_.clear();
  waiters_.clear();
  num_waiting_ = 0;
  size_bytes_ = 0;
}

absl::Status RendezvousStore::CheckKey(const std::string& key) const {
  if (prefix_.empty() || !absl::StartsWith(key, prefix_)) {
    return absl::FailedPreconditionError(
        "the rendezvous key is not of the generation that is being formed");
  }
  if (key.size() > limits_.key_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a rendezvous key has ", key.size(),
                     " bytes; the limit is ", limits_.key_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RendezvousStore::Waiter>> RendezvousStore::Set(
    const std::string& key, std::string value) {
  PIPESTAGE_RETURN_IF_ERROR(CheckKey(key));
  const auto old = values_.find(key);
  const size_t freed =
      old == values_.end() ? 0 : key.size() + old->second.size();
  const size_t total = size_bytes_ - freed + key.size() + value.size();
  if (value.size() > limits_.value_bytes || total > limits_.total_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a rendezvous value of ", value.size(), " bytes; the limits are ",
        limits_.value_bytes, " a value, ", limits_.total_bytes, " in all"));
  }
  size_bytes_ = total;
  values_[key] = std::move(value);
  auto node = waiters_.extract(key);
  if (node.empty()) return std::vector<Waiter>();
  num_waiting_ -= node.mapped().size();
  return std::move(node.mapped());
}

absl::StatusOr<std::optional<std::string>> RendezvousStore::Get(
    const std::string& key, Waiter waiter) {
  PIPESTAGE_RETURN_IF_ERROR(CheckKey(key));
  const auto found = values_.find(key);
  if (found != values_.end()) return found->second;
  if (num_waiting_ >= limits_.waiting) {
    return absl::ResourceExhaustedError(
        absl::StrCat(limits_.waiting, " rendezvous requests wait already"));
  }
  ++num_waiting_;
  waiters_[key].push_back(waiter);
  return std::nullopt;
}

}  // namespace pipestage
