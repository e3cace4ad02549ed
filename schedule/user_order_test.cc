#include "schedule/user_order.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "schedule/compiler.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

absl::Status Check(const std::string& csv, int p, int v, int m,
                   PlanMode mode = PlanMode::kStep) {
  return CheckUserOrder(*ParseCsv(csv), {p, v, m}, mode);
}

TEST(CheckUserOrderTest, ComputeAloneAndComputeWithMessagesAreBothTaken) {
  EXPECT_THAT(Check("0F0,0B0\n1F0,1B0\n", 2, 1, 1), IsOk());
  EXPECT_THAT(Check("0F0,0SEND_F0,0RECV_B0,0B0\n"
                    "1RECV_F0,1F0,1B0,1SEND_B0\n",
                    2, 1, 1),
              IsOk());
  EXPECT_THAT(Check("0F0\n1F0\n", 2, 1, 1, PlanMode::kEval), IsOk());
}

TEST(CheckUserOrderTest, AnyPlacementIsTaken) {
  // Rank 0 has stages 1 and 2.
  EXPECT_THAT(Check("1F0,2F0,2B0,1B0\n0F0,3F0,3B0,0B0\n", 2, 2, 1), IsOk());
}

TEST(CheckUserOrderTest, TheFirstWrongActionIsNamed) {
  struct Case {
    const char* csv;
    const char* message;
  };
  for (const Case& c : {
           Case{"0F0,0B0,0B0\n1F0,1B0\n",
                "rank 0, action 2 (0B0): its backward was computed before"},
           Case{"0F0,0B0\n1F0\n", "rank 1 lacks 1B0"},
           Case{"0F0,0B0\n1F0,1I0\n", "rank 1 lacks 1W0"},
           Case{"0F0,0B0\n1F0,1W0,1I0\n",
                "(1W0): its input gradient was not computed before"},
           Case{"0B0,0F0\n1F0,1B0\n", "(0B0): its forward was not computed"},
           Case{"0F0,0B0,1F0\n1F0,1B0\n", "(1F0): the stage is on rank 1"},
           Case{"0F0,0B0\n1F0,1B0,1B1\n", "there are 1 microbatches"},
           Case{"0F0,0B0\n", "there are 1 rows"},
           Case{"0F0,0B0\n2F0,2B0\n", "no row has an action of stage 1"},
           Case{"0F0,0B0,1F0,1B0\n\n", "rank 0 owns 2 stages by its row"},
       }) {
    EXPECT_THAT(
        Check(c.csv, 2, 1, 1),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.csv;
  }
}

TEST(CheckUserOrderTest, AnOrderThatWaitsForItselfSaysWhoWaits) {
  EXPECT_THAT(Check("2F0,0F0,2B0,0B0\n1F0,3F0,3B0,1B0\n", 2, 2, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rank 0 waits before 2F0")));
}

TEST(CheckUserOrderTest, AnEvalHasNoBackwards) {
  EXPECT_THAT(Check("0F0,0B0\n1F0,1B0\n", 2, 1, 1, PlanMode::kEval),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("(0B0): an Eval goes forward only")));
}

PlanRequest RequestFor(PlanMode mode, int p, int v, int m) {
  PlanRequest request;
  request.mode = mode;
  request.schedule = "mine.csv";
  request.num_ranks = p;
  request.stages_per_rank = v;
  request.num_microbatches = m;
  return request;
}

TEST(CompileUserOrderTest, AnEvalTakesTheForwardsOfATrainingOrder) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      auto plan, CompileUserOrder(RequestFor(PlanMode::kEval, 2, 1, 2),
                                  *ParseCsv("0F1,0F0,0B1,0B0\n"
                                            "1F1,1B1,1F0,1B0\n")));

  EXPECT_EQ(plan->schedule, "mine.csv");
  EXPECT_EQ(ToCsv(plan->ranks),
            "0F1,0SEND_F1,0F0,0SEND_F0\n"
            "1RECV_F1,1F1,1RECV_F0,1F0\n");
  EXPECT_EQ(plan->forward_positions[1][1], 1);
}

TEST(CompileUserOrderTest, AStepKeepsTheMessagesItIsGiven) {
  // Later than the lowering puts them.
  const std::string row0 =
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1";
  const std::string row1 =
      "1RECV_F0,1F0,1B0,1RECV_F1,1SEND_B0,1F1,1B1,1SEND_B1";
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      auto plan, CompileUserOrder(RequestFor(PlanMode::kStep, 2, 1, 2),
                                  *ParseCsv(row0 + "\n" + row1 + "\n")));

  EXPECT_EQ(
      ToCsv(plan->ranks),
      row0 + ",0REDUCE_GRAD\n" +
          "1RECV_F0,1F0,1B0,1RECV_F1,1SEND_B0,1F1,1B1,1REDUCE_GRAD,1SEND_B1\n");
}

TEST(CompileUserOrderTest, WhoReducesSomeGradientsMustReduceAll) {
  EXPECT_THAT(Check("0F0,0SEND_F0,0RECV_B0,0B0\n"
                    "1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n",
                    2, 1, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rank 0 lacks 0REDUCE_GRAD")));
}

TEST(CompileUserOrderTest, StagesThatLieElsewhereAreTheUsersFault) {
  PlanRequest request = RequestFor(PlanMode::kEval, 2, 2, 1);
  request.placement = StagePlacement::kLoop;

  EXPECT_THAT(CompileUserOrder(request, *ParseCsv("0F0,3F0\n1F0,2F0\n")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("(3F0): the stage is on rank 1")));
}

}  // namespace
}  // namespace pipestage
