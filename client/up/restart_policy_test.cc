#include "client/up/restart_policy.h"

#include "gtest/gtest.h"

namespace pipestage {
namespace {

RestartPolicy::Options Options() {
  RestartPolicy::Options options;
  options.first_delay = absl::Seconds(1);
  options.max_delay = absl::Seconds(3);
  options.settled = absl::Seconds(10);
  options.max_early_ends = 5;
  return options;
}

TEST(RestartPolicyTest, DelaysDoubleUpToTheLimitThenItGivesUp) {
  RestartPolicy policy(Options());

  EXPECT_EQ(policy.OnEnd(absl::Seconds(1)), absl::Seconds(1));
  EXPECT_EQ(policy.OnEnd(absl::Seconds(1)), absl::Seconds(2));
  EXPECT_EQ(policy.OnEnd(absl::Seconds(1)), absl::Seconds(3));
  EXPECT_EQ(policy.OnEnd(absl::Seconds(1)), absl::Seconds(3));
  EXPECT_EQ(policy.OnEnd(absl::Seconds(1)), std::nullopt);
}

TEST(RestartPolicyTest, WhoHasSettledStartsAfresh) {
  RestartPolicy policy(Options());
  policy.OnEnd(absl::Seconds(1));
  policy.OnEnd(absl::Seconds(1));

  EXPECT_EQ(policy.OnEnd(absl::Seconds(10)), absl::Seconds(1));
}

}  // namespace
}  // namespace pipestage
