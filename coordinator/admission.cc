#include "coordinator/admission.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"

namespace pipestage {

Admission::Reservation& Admission::Reservation::operator=(
    Reservation&& other) noexcept {
  Release();
  admission_ = std::exchange(other.admission_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Admission::Reservation::Release() {
  if (Admission* admission = std::exchange(admission_, nullptr)) {
    admission->ReturnBytes(bytes_);
  }
}

Admission::Place& Admission::Place::operator=(Place&& other) noexcept {
  Release();
  admission_ = std::exchange(other.admission_, nullptr);
  return *this;
}

void Admission::Place::Release() {
  if (Admission* admission = std::exchange(admission_, nullptr)) {
    admission->ReturnPlace();
  }
}

absl::StatusOr<Admission::Reservation> Admission::Reserve(int64_t bytes) {
  if (bytes > options_.max_bytes) {
    return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                          "the call needs ", bytes,
                          " bytes in the coordinator; the limit for all calls "
                          "together is ",
                          options_.max_bytes)),
                      reason::kMessageTooLarge,
                      {{"actual", absl::StrCat(bytes)},
                       {"expected", absl::StrCat(options_.max_bytes)}});
  }
  absl::MutexLock lock(&mu_);
  if (bytes_ > options_.max_bytes - bytes) {
    return WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "the calls admitted hold ", bytes_, " bytes; this one needs ",
            bytes, " more and the limit is ", options_.max_bytes,
            "; try again in 1s")),
        reason::kQueueFull, {{"retry_after_s", "1"}});
  }
  bytes_ += bytes;
  return Reservation(this, bytes);
}

void Admission::ReturnBytes(int64_t bytes) {
  absl::MutexLock lock(&mu_);
  bytes_ -= bytes;
}

absl::Status Admission::QueueFull() const {
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          waiting_.size(), " calls wait and ", running_, " run; the limit is ",
          options_.max_waiting, " waiting calls; try again in 1s")),
      reason::kQueueFull, {{"retry_after_s", "1"}});
}

Admission::WaitId Admission::Enter(absl::Time deadline, Admitted admitted) {
  absl::Status refused;
  {
    absl::MutexLock lock(&mu_);
    if (!closed_.ok()) {
      refused = closed_;
    } else if (running_ < options_.max_running) {
      ++running_;
    } else if (static_cast<int>(waiting_.size()) < options_.max_waiting) {
      waiting_.push_back({++last_id_, deadline, std::move(admitted)});
      return last_id_;
    } else {
      refused = QueueFull();
    }
  }
  if (refused.ok()) {
    admitted(Place(this));
  } else {
    admitted(std::move(refused));
  }
  return 0;
}

void Admission::ReturnPlace() {
  {
    absl::MutexLock lock(&mu_);
    ++places_returned_;
    // A call that is refused gives its place back at once, within its callback:
    // whoever hands places out goes on with it, not a callback in a callback in
    // a callback, for as many as wait.
    if (std::exchange(handing_out_, true)) return;
  }
  while (HandOutOne()) {
  }
}

bool Admission::HandOutOne() {
  Admitted next;
  {
    absl::MutexLock lock(&mu_);
    if (places_returned_ == 0) {
      handing_out_ = false;
      return false;
    }
    --places_returned_;
    if (waiting_.empty()) {
      --running_;
      return true;
    }
    next = std::move(waiting_.front().admitted);
    waiting_.pop_front();
  }
  next(Place(this));
  return true;
}

void Admission::Leave(WaitId id, absl::Status why) {
  Admitted left;
  {
    absl::MutexLock lock(&mu_);
    const auto it =
        std::find_if(waiting_.begin(), waiting_.end(),
                     [id](const Waiting& waiting) { return waiting.id == id; });
    if (it == waiting_.end()) return;
    left = std::move(it->admitted);
    waiting_.erase(it);
  }
  left(std::move(why));
}

void Admission::ExpireWaits() {
  const absl::Time now = options_.clock->Now();
  std::vector<Admitted> expired;
  {
    absl::MutexLock lock(&mu_);
    for (Waiting& waiting : waiting_) {
      if (waiting.deadline <= now) {
        expired.push_back(std::move(waiting.admitted));
      }
    }
    waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(),
                                  [now](const Waiting& waiting) {
                                    return waiting.deadline <= now;
                                  }),
                   waiting_.end());
  }
  for (Admitted& admitted : expired) {
    admitted(absl::DeadlineExceededError(
        "the deadline passed while the call waited for its turn"));
  }
}

void Admission::CloseQueue(absl::Status why) {
  absl::MutexLock lock(&mu_);
  closed_ = std::move(why);
}

void Admission::ExpelWaiting(const absl::Status& why) {
  std::deque<Waiting> expelled;
  {
    absl::MutexLock lock(&mu_);
    expelled.swap(waiting_);
  }
  for (Waiting& waiting : expelled) waiting.admitted(why);
}

Admission::Counts Admission::counts() const {
  absl::MutexLock lock(&mu_);
  return {static_cast<int>(waiting_.size()), running_, bytes_};
}

}  // namespace pipestage
