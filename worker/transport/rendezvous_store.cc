#include "worker/transport/rendezvous_store.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "c10/util/Exception.h"

namespace pipestage {

RendezvousStore::RendezvousStore(Rendezvous* rendezvous, absl::Duration timeout)
    : c10d::Store(absl::ToChronoMilliseconds(timeout)),
      timeout_(timeout),
      rendezvous_(rendezvous) {}

absl::Status RendezvousStore::status() const {
  absl::MutexLock lock(&mu_);
  return status_;
}

void RendezvousStore::Disconnect() {
  absl::MutexLock lock(&mu_);
  rendezvous_ = nullptr;
}

c10::intrusive_ptr<c10d::Store> RendezvousStore::clone() {
  return c10::intrusive_ptr<RendezvousStore>::unsafe_reclaim_from_nonowning(
      this);
}

void RendezvousStore::set(const std::string& key,
                          const std::vector<uint8_t>& value) {
  const absl::Status status =
      Connected().Set(key, std::string(value.begin(), value.end()));
  if (!status.ok()) Fail(status);
}

std::vector<uint8_t> RendezvousStore::get(const std::string& key) {
  const std::string value = Fetch(key, timeout_);
  return {value.begin(), value.end()};
}

void RendezvousStore::wait(const std::vector<std::string>& keys) {
  wait(keys, absl::ToChronoMilliseconds(timeout_));
}

void RendezvousStore::wait(const std::vector<std::string>& keys,
                           const std::chrono::milliseconds& timeout) {
  const absl::Time deadline =
      absl::Now() + std::min(timeout_, absl::FromChrono(timeout));
  for (const std::string& key : keys) Fetch(key, deadline - absl::Now());
}

bool RendezvousStore::check(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    const auto value = Connected().Get(key, absl::ZeroDuration());
    if (absl::IsDeadlineExceeded(value.status())) return false;
    if (!value.ok()) Fail(value.status());
  }
  return true;
}

int64_t RendezvousStore::add(const std::string& key, int64_t value) {
  C10_THROW_ERROR(NotImplementedError, "a rendezvous does not add");
}

bool RendezvousStore::deleteKey(const std::string& key) {
  C10_THROW_ERROR(NotImplementedError, "a rendezvous does not delete");
}

int64_t RendezvousStore::getNumKeys() {
  C10_THROW_ERROR(NotImplementedError, "a rendezvous does not count");
}

std::string RendezvousStore::Fetch(const std::string& key,
                                   absl::Duration timeout) {
  auto value = Connected().Get(key, std::max(timeout, absl::ZeroDuration()));
  if (!value.ok()) Fail(value.status());
  return *std::move(value);
}

Rendezvous& RendezvousStore::Connected() {
  absl::MutexLock lock(&mu_);
  TORCH_CHECK(rendezvous_ != nullptr,
              "the rendezvous is used while a group forms, not later");
  return *rendezvous_;
}

void RendezvousStore::Fail(const absl::Status& status) {
  {
    absl::MutexLock lock(&mu_);
    status_.Update(status);
  }
  C10_THROW_ERROR(DistStoreError, std::string(status.message()));
}

}  // namespace pipestage
