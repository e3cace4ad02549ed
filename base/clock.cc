#include "base/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace pipestage {
namespace {

class RealClock : public Clock {
 public:
  // Wall time at start, advanced by the steady clock: an adjustment of the wall
  // clock must not make a deadline pass or a heartbeat look late.
  absl::Time Now() override {
    return start_wall_ +
           absl::FromChrono(std::chrono::steady_clock::now() - start_steady_);
  }

 private:
  const absl::Time start_wall_ = absl::Now();
  const std::chrono::steady_clock::time_point start_steady_ =
      std::chrono::steady_clock::now();
};

}  // namespace

Clock* Clock::Real() {
  static Clock* const clock = new RealClock;
  return clock;
}

}  // namespace pipestage
