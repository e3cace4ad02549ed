#ifndef PIPESTAGE_COORDINATOR_TRANSFER_PACE_H_
#define PIPESTAGE_COORDINATOR_TRANSFER_PACE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "coordinator/timers.h"

namespace pipestage {

// Notices a client that holds what it has reserved and does not get on: one
// that announces a tensor and sends nothing, or does not read its answer. A
// transfer may take a grace, and beyond it as long as its bytes take at the
// slowest speed that is put up with.
//
// Thread-safe.
class TransferPace : public std::enable_shared_from_this<TransferPace> {
 public:
  struct Options {
    absl::Duration grace = absl::Seconds(30);
    int64_t min_bytes_per_s = 64 << 10;
  };
  // Called once, in the timers' thread.
  using OnLate = std::function<void(absl::Duration since, int64_t bytes)>;

  // Neither is owned; both outlive every transfer.
  static std::shared_ptr<TransferPace> Create(Options options, Clock* clock,
                                              Timers* timers) {
    return std::shared_ptr<TransferPace>(
        new TransferPace(options, clock, timers));
  }

  // A transfer begins; one that was under way is forgotten. `on_late` holds
  // what it needs weakly: it may run while End is called.
  void Begin(OnLate on_late) ABSL_LOCKS_EXCLUDED(mu_);
  void Moved(int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);
  void End() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  TransferPace(Options options, Clock* clock, Timers* timers)
      : options_(options), clock_(clock), timers_(timers) {}

  absl::Time Due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Arm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Check(int64_t transfer) ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  Clock* const clock_;
  Timers* const timers_;
  absl::Mutex mu_;
  int64_t transfer_ ABSL_GUARDED_BY(mu_) = 0;  // the number of this one
  OnLate on_late_ ABSL_GUARDED_BY(mu_);        // null: none is under way
  absl::Time began_ ABSL_GUARDED_BY(mu_);
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  Timers::Id timer_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_TRANSFER_PACE_H_
