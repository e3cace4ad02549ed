#include "schedule/verifier.h"

#include <string>
#include <vector>

#include "base/error_info.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "schedule/placement.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

Plan PlanOf(const std::string& csv, int ranks, int stages_per_rank,
            int microbatches) {
  Plan plan;
  plan.num_microbatches = microbatches;
  plan.stage_ranks = LoopPlacement(ranks, stages_per_rank);
  plan.ranks = *ParseCsv(csv);
  return plan;
}

TEST(VerifyPlanTest, ARightPlanIsAccepted) {
  EXPECT_THAT(VerifyPlan(PlanOf("0F0,0SEND_F0,0F1,0SEND_F1\n"
                                "1RECV_F0,1F0,1RECV_F1,1F1\n",
                                2, 1, 2)),
              IsOk());
}

TEST(VerifyPlanTest, AReceiveMayComeLongBeforeItsForward) {
  EXPECT_THAT(VerifyPlan(PlanOf("0F0,0SEND_F0,0F1,0SEND_F1\n"
                                "1RECV_F0,1RECV_F1,1F0,1F1\n",
                                2, 1, 2)),
              IsOk());
}

struct Refusal {
  std::string csv;
  std::string message;
};

TEST(VerifyPlanTest, TheFirstWrongActionIsNamed) {
  // Two ranks, one stage each, two microbatches.
  const std::string row0 = "0F0,0SEND_F0,0F1,0SEND_F1\n";
  const std::string row1 = "1RECV_F0,1F0,1RECV_F1,1F1\n";
  const std::vector<Refusal> refusals = {
      {row0, "stage 1 is on rank 1, but there are 1 rows"},
      {row0 + row1 + "\n", "there are 3 rows, but rank 2 owns no stage"},
      {row0 + "1RECV_F0,1F0,1RECV_F1,1F1,1B0\n",
       "rank 1, action 4 (1B0): an Eval goes forward only"},
      {"0UNSHARD," + row0 + row1, "action 0 (0UNSHARD): an Eval goes"},
      {row0 + "1RECV_F0,1F0,1RECV_F1,1F1,1SEND_B0\n", "(1SEND_B0): an Eval"},
      {"7F0," + row0 + row1, "rank 0, action 0 (7F0): there are 2 stages"},
      {row0 + "1RECV_F0,1F0,1RECV_F1,1F2\n",
       "rank 1, action 3 (1F2): there are 2 microbatches"},
      {"1F0," + row0 + row1, "(1F0): the stage is on rank 1"},
      {"0F0,0SEND_F0,0F0,0SEND_F1\n" + row1,
       "rank 0, action 2 (0F0): it was computed before"},
      {row0 + "1F0,1RECV_F0,1RECV_F1,1F1\n",
       "(1F0): its input was not received before"},
      {"0SEND_F0,0F0,0F1,0SEND_F1\n" + row1,
       "(0SEND_F0): what it sends was not computed before"},
      {"0F0,0SEND_F0,0SEND_F0,0F1,0SEND_F1\n" + row1,
       "action 2 (0SEND_F0): it was sent before"},
      {row0 + "1RECV_F0,1F0,1RECV_F0,1F1\n",
       "action 2 (1RECV_F0): it was received before"},
      {row0 + "1RECV_F0,1F0,1RECV_F1,1F1,1SEND_F1\n",
       "(1SEND_F1): no other rank needs what it sends"},
      {"0RECV_F0," + row0 + row1,
       "(0RECV_F0): no other rank has what it receives"},
      {row0 + "1RECV_F0,1F0,1RECV_F1\n", "rank 1 lacks 1F1"},
      {"0F0,0SEND_F0,0F1\n" + row1, "rank 0 lacks 0SEND_F1"},
      {"0F0,0F1,0SEND_F1,0SEND_F0\n" + row1,
       "rank 1, action 0 (1RECV_F0): at this point rank 0 sends it 0SEND_F1"},
  };
  for (const Refusal& refusal : refusals) {
    const absl::Status status = VerifyPlan(PlanOf(refusal.csv, 2, 1, 2));

    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                                 HasSubstr(refusal.message)))
        << refusal.csv;
    EXPECT_EQ(GetReason(status), reason::kPlanInvalid);
  }
}

TEST(VerifyPlanTest, AStageOfTheSameRankMustComeFirst) {
  EXPECT_THAT(VerifyPlan(PlanOf("1F0,0F0\n", 1, 2, 1)),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("(1F0): its input was not computed before")));
}

TEST(VerifyPlanTest, ADeadlockSaysWhatEachRankWaitsFor) {
  // Each rank wants to send before the other receives; with sends that do not
  // block it would end.
  const Plan plan = PlanOf(
      "0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1\n"
      "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3RECV_F1,3F1\n",
      2, 2, 2);

  EXPECT_THAT(VerifyPlan(plan),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("deadlock: rank 0 waits at action 3 "
                                 "(0SEND_F1) for rank 1; rank 1 waits at "
                                 "action 2 (1SEND_F0) for rank 0")));
}

TEST(VerifyPlanTest, PlansOfNothingAreRefused) {
  EXPECT_THAT(VerifyPlan(Plan()), StatusIs(absl::StatusCode::kInternal,
                                           HasSubstr("0 microbatches")));
  EXPECT_THAT(VerifyPlan(PlanOf("", 0, 1, 1)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("no rows")));
}

}  // namespace
}  // namespace pipestage
