#include "schedule/unit_time.h"

#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "schedule/placement.h"

namespace pipestage {
namespace {

Plan PlanOf(const char* csv, int ranks, int stages_per_rank, int microbatches) {
  Plan plan;
  plan.num_microbatches = microbatches;
  plan.stage_ranks = LoopPlacement(ranks, stages_per_rank);
  plan.ranks = *ParseCsv(csv);
  return plan;
}

TEST(UnitTimeTest, EachStageWaitsForTheOneBefore) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      UnitTimes times, SimulateUnitTime(PlanOf("0F0,0SEND_F0,0F1,0SEND_F1\n"
                                               "1RECV_F0,1F0,1RECV_F1,1F1\n",
                                               2, 1, 2)));

  EXPECT_EQ(times.num_steps, 3);
  ASSERT_EQ(times.ranks[1].size(), 2u);
  EXPECT_EQ(times.ranks[1][0].start, 1);
  EXPECT_EQ(times.ranks[1][1].start, 2);
}

TEST(UnitTimeTest, BackwardsWaitForTheNextStage) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      UnitTimes times,
      SimulateUnitTime(PlanOf("0F0,0B0\n1F0,1I0,1W0\n", 2, 1, 1)));

  EXPECT_EQ(times.ranks[0][1].start, 3);
  EXPECT_EQ(times.ranks[1][2].start, 3);
}

TEST(UnitTimeTest, AnOrderThatWaitsForItselfIsRefused) {
  EXPECT_THAT(SimulateUnitTime(PlanOf("2F0,0F0\n1F0,3F0\n", 2, 2, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::HasSubstr("rank 0 at 2F0")));
}

}  // namespace
}  // namespace pipestage
