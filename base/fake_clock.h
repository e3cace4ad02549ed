#ifndef PIPESTAGE_BASE_FAKE_CLOCK_H_
#define PIPESTAGE_BASE_FAKE_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace pipestage {

// A clock that stands still until a test moves it. Thread-safe.
class FakeClock : public Clock {
 public:
  absl::Time Now() override {
    absl::MutexLock lock(&mu_);
    return now_;
  }

  void Advance(absl::Duration by) {
    absl::MutexLock lock(&mu_);
    now_ += by;
  }

 private:
  absl::Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_) = absl::FromUnixSeconds(1'000'000'000);
};

}  // namespace pipestage

#endif  // PIPESTAGE_BASE_FAKE_CLOCK_H_
