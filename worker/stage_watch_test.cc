#include "worker/stage_watch.h"

#include "absl/synchronization/notification.h"
#include "base/fake_clock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

constexpr absl::Duration kLimit = absl::Minutes(10);

StageWatch::Options Often() { return {kLimit, absl::Milliseconds(1)}; }

TEST(StageWatchTest, AStageThatDoesNotComeBackIsReportedByName) {
  FakeClock clock;
  StageActivity activity;
  absl::Notification reported;
  StageActivity::Work stuck;
  absl::Duration elapsed;
  const StageWatch watch(
      Often(), &activity, &clock,
      [&](const StageActivity::Work& work, absl::Duration after) {
        stuck = work;
        elapsed = after;
        reported.Notify();
      });
  const StageActivity::Scope scope(
      &activity, {CallId(7), StageIndex(2), MicrobatchIndex(3), clock.Now()});

  clock.Advance(kLimit + absl::Seconds(1));
  reported.WaitForNotification();

  EXPECT_EQ(stuck.call, CallId(7));
  EXPECT_EQ(stuck.stage, StageIndex(2));
  EXPECT_EQ(stuck.microbatch, MicrobatchIndex(3));
  EXPECT_EQ(elapsed, kLimit + absl::Seconds(1));
}

TEST(StageWatchTest, ManyShortStagesAreNotOneLongOne) {
  FakeClock clock;
  StageActivity activity;
  bool reported = false;
  {
    const StageWatch watch(Often(), &activity, &clock,
                           [&](const auto&, auto) { reported = true; });
    for (int m = 0; m < 20; ++m) {
      const StageActivity::Scope scope(
          &activity,
          {CallId(7), StageIndex(2), MicrobatchIndex(m), clock.Now()});
      clock.Advance(kLimit - absl::Seconds(1));
    }
    clock.Advance(2 * kLimit);  // and idleness is no stage at all
  }

  EXPECT_FALSE(reported);
  EXPECT_FALSE(activity.current().has_value());
}

}  // namespace
}  // namespace pipestage
