#include "coordinator/transfer_pace.h"

#include <utility>

namespace pipestage {

void TransferPace::Begin(OnLate on_late) {
  absl::MutexLock lock(&mu_);
  timers_->Cancel(timer_);
  ++transfer_;
  on_late_ = std::move(on_late);
  began_ = clock_->Now();
  bytes_ = 0;
  Arm();
}

void TransferPace::Moved(int64_t bytes) {
  absl::MutexLock lock(&mu_);
  bytes_ += bytes;
}

void TransferPace::End() {
  absl::MutexLock lock(&mu_);
  timers_->Cancel(std::exchange(timer_, 0));
  on_late_ = nullptr;
}

absl::Time TransferPace::Due() const {
  return began_ + options_.grace +
         absl::Seconds(static_cast<double>(bytes_) /
                       static_cast<double>(options_.min_bytes_per_s));
}

// Moved need not touch the timer: what is late is seen when it is due.
void TransferPace::Arm() {
  timer_ = timers_->At(Due(), [weak = weak_from_this(), transfer = transfer_] {
    if (const auto self = weak.lock()) self->Check(transfer);
  });
}

void TransferPace::Check(int64_t transfer) {
  OnLate on_late;
  absl::Duration since;
  int64_t bytes;
  {
    absl::MutexLock lock(&mu_);
    if (transfer != transfer_ || on_late_ == nullptr) return;
    const absl::Time now = clock_->Now();
    if (now < Due()) return Arm();
    on_late = std::exchange(on_late_, nullptr);
    since = now - began_;
    bytes = bytes_;
  }
  on_late(since, bytes);
}

}  // namespace pipestage
