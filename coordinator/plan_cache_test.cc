#include "coordinator/plan_cache.h"

#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

PlanRequest RequestOf(int num_microbatches, std::string schedule = "1F1B") {
  PlanRequest request;
  request.schedule = std::move(schedule);
  request.num_ranks = 2;
  request.num_microbatches = num_microbatches;
  return request;
}

TEST(PlanCacheTest, SecondRequestIsAHitWhateverTheCase) {
  PlanCache cache({});
  const auto first = cache.GetOrCompile(RequestOf(3));
  const auto second = cache.GetOrCompile(RequestOf(3, "1f1b"));

  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_FALSE(first->hit);
  EXPECT_TRUE(second->hit);
  EXPECT_EQ(first->plan, second->plan);
}

TEST(PlanCacheTest, LeastRecentlyUsedPlanGoes) {
  PlanCache cache({.max_plans = 2});
  ASSERT_THAT(cache.GetOrCompile(RequestOf(1)), IsOk());
  ASSERT_THAT(cache.GetOrCompile(RequestOf(2)), IsOk());
  ASSERT_TRUE(cache.GetOrCompile(RequestOf(1))->hit);

  ASSERT_THAT(cache.GetOrCompile(RequestOf(3)), IsOk());

  EXPECT_TRUE(cache.GetOrCompile(RequestOf(1))->hit);
  EXPECT_FALSE(cache.GetOrCompile(RequestOf(2))->hit);
  EXPECT_EQ(cache.counts().entries, 2);
}

TEST(PlanCacheTest, ActionsOfAllPlansAreBounded) {
  PlanCache cache({.max_plans = 100, .max_actions = 100});

  for (int m = 1; m <= 20; ++m) {
    ASSERT_THAT(cache.GetOrCompile(RequestOf(m)), IsOk());
  }

  EXPECT_LT(cache.counts().entries, 5);
  EXPECT_GE(cache.counts().entries, 1);
}

TEST(PlanCacheTest, ErrorsAreNotCached) {
  PlanCache cache({});

  EXPECT_THAT(cache.GetOrCompile(RequestOf(1, "nothing")),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(cache.counts().entries, 0);
}

}  // namespace
}  // namespace pipestage
