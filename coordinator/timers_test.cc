#include "coordinator/timers.h"

#include <vector>

#include "absl/synchronization/notification.h"
#include "base/fake_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;

TEST(TimersTest, CallbacksRunInOrderOfTheirTimes) {
  FakeClock clock;
  Timers timers(&clock);
  std::vector<int> ran;
  timers.At(clock.Now() + absl::Seconds(2), [&] { ran.push_back(2); });
  timers.At(clock.Now() + absl::Seconds(1), [&] { ran.push_back(1); });
  timers.At(clock.Now() + absl::Seconds(9), [&] { ran.push_back(9); });

  timers.RunDue();
  EXPECT_THAT(ran, ElementsAre());
  clock.Advance(absl::Seconds(2));
  timers.RunDue();

  EXPECT_THAT(ran, ElementsAre(1, 2));
}

TEST(TimersTest, CancelledTimerDoesNotRun) {
  FakeClock clock;
  Timers timers(&clock);
  int ran = 0;
  const Timers::Id id = timers.At(clock.Now(), [&] { ++ran; });

  timers.Cancel(id);
  timers.RunDue();

  EXPECT_EQ(ran, 0);
}

TEST(TimersTest, InfiniteFutureNeedsNoTimer) {
  FakeClock clock;
  Timers timers(&clock);

  EXPECT_EQ(timers.At(absl::InfiniteFuture(), [] {}), 0);
}

TEST(TimersTest, ThreadWakesForAnEarlierTimer) {
  Timers timers(Clock::Real());
  timers.At(Clock::Real()->Now() + absl::Hours(1), [] {});
  timers.Start();
  absl::Notification ran;

  timers.At(Clock::Real()->Now() + absl::Milliseconds(1),
            [&] { ran.Notify(); });

  EXPECT_TRUE(ran.WaitForNotificationWithTimeout(absl::Seconds(10)));
  timers.Stop();
}

}  // namespace
}  // namespace pipestage
