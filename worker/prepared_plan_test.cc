#include "worker/prepared_plan.h"

#include "base/error_info.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/testing/toy_pipeline.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

PackageContract Contract(int num_stages) {
  return *ParseContract(ToyPipelineJson(DigitPipeline(num_stages)));
}

// Rank 1 of 2, one stage each, with these actions.
RankPlan PlanOf(const std::string& actions) {
  RankPlan plan = MakeToyPlans(2, 1, 2)[1];
  plan.actions = (*ParseCsv(actions + "\n"))[0];
  return plan;
}

void ExpectRefused(const std::string& actions, const std::string& why) {
  const auto prepared = PreparedPlan::Create(PlanOf(actions), Contract(2));

  EXPECT_THAT(prepared,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(why)));
  EXPECT_EQ(GetReason(prepared.status()), reason::kPlanInvalid);
}

TEST(PreparedPlanTest, EveryForwardKnowsWhereItsInputComesFrom) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const auto prepared,
      PreparedPlan::Create(PlanOf("1RECV_F0,1RECV_F1,1F1,1F0"), Contract(2)));

  ASSERT_EQ(prepared->receives().size(), 2);
  EXPECT_EQ(prepared->receives()[1].stage, StageIndex(0));
  EXPECT_EQ(prepared->receives()[1].microbatch, MicrobatchIndex(1));
  EXPECT_EQ(prepared->actions()[2].receive, 1);
  EXPECT_EQ(prepared->actions()[3].receive, 0);
}

TEST(PreparedPlanTest, SlotsAreUsedAgain) {
  const RankPlan plan = MakeToyPlans(1, 4, 8, /*depth_first=*/true)[0];

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto prepared,
                                 PreparedPlan::Create(plan, Contract(4)));

  EXPECT_EQ(prepared->num_slots(), 1);
}

TEST(PreparedPlanTest, PlanOfAnotherModelIsRefused) {
  EXPECT_THAT(PreparedPlan::Create(MakeToyPlans(2, 1, 2)[0], Contract(4)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("it has 2 stages; model toy@1 has 4")));
}

TEST(PreparedPlanTest, WhatCannotBeExecutedIsRefused) {
  ExpectRefused("1F0,1RECV_F0,1RECV_F1,1F1", "1F0 comes before its input");
  ExpectRefused("1RECV_F0,1F0", "1F1 is missing");
  ExpectRefused("1RECV_F0,1F0,1F0", "1F0 comes twice");
  ExpectRefused("1RECV_F0,1RECV_F0", "1RECV_F0 comes twice");
  ExpectRefused("0F0", "is for rank 0; this is rank 1");
  ExpectRefused("1RECV_F0,1F0,1SEND_F0", "1SEND_F0 has no receiver");
  ExpectRefused("1RECV_F0,1F0,1B0", "1B0 has no place in an Eval");
}

TEST(PreparedPlanTest, OutputThatGoesNowhereIsRefused) {
  RankPlan plan = MakeToyPlans(2, 1, 1)[0];
  plan.actions.pop_back();  // its send

  EXPECT_THAT(PreparedPlan::Create(plan, Contract(2)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("the output of 0F0 goes nowhere")));
}

}  // namespace
}  // namespace pipestage
