#ifndef PIPESTAGE_BASE_CLOCK_H_
#define PIPESTAGE_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace pipestage {

// Time as a dependency: whoever needs it takes a Clock, tests pass a FakeClock.
//
// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // Never goes backwards.
  virtual absl::Time Now() = 0;

  // The machine's clock. Never null; lives for ever.
  static Clock* Real();
};

}  // namespace pipestage

#endif  // PIPESTAGE_BASE_CLOCK_H_
