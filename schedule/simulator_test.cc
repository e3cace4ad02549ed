#include "schedule/simulator.h"

#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "schedule/placement.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

Plan PlanOf(const char* csv, int ranks, int stages_per_rank, int microbatches,
            PlanMode mode = PlanMode::kEval) {
  Plan plan;
  plan.mode = mode;
  plan.num_microbatches = microbatches;
  plan.stage_ranks = LoopPlacement(ranks, stages_per_rank);
  plan.ranks = *ParseCsv(csv);
  return plan;
}

constexpr char kTwoStages[] =
    "0F0,0SEND_F0,0F1,0SEND_F1\n"
    "1RECV_F0,1F0,1RECV_F1,1F1\n";

TEST(SimulatorTest, EachStageWaitsForTheOneBefore) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(Simulation simulation,
                                 Simulate(PlanOf(kTwoStages, 2, 1, 2)));

  EXPECT_EQ(simulation.makespan(), 3);
  ASSERT_EQ(simulation.timeline.ranks[1].size(), 2u);
  EXPECT_EQ(simulation.timeline.ranks[1][0].start, 1);
  EXPECT_EQ(simulation.timeline.ranks[1][1].start, 2);
  EXPECT_EQ(simulation.busy, 4);
  EXPECT_EQ(simulation.bubble, 2);
  EXPECT_EQ(simulation.ranks[0].bubble, 1);
  EXPECT_DOUBLE_EQ(simulation.bubble_ratio(), 2.0 / 6);
}

TEST(SimulatorTest, MessagesTakeTimeAndAreCounted) {
  Costs costs;
  costs.stages = {{.forward = 10}, {.forward = 7}};
  costs.message = 100;
  costs.message_bytes = 8;

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(Simulation simulation,
                                 Simulate(PlanOf(kTwoStages, 2, 1, 2), costs));

  // The second output leaves at 20 and is computed from 120 to 127.
  EXPECT_EQ(simulation.makespan(), 127);
  EXPECT_EQ(simulation.messages, 2);
  EXPECT_EQ(simulation.ranks[0].messages_sent, 2);
  EXPECT_EQ(simulation.bytes, 16);
}

TEST(SimulatorTest, BackwardsWaitForTheNextStage) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      Simulation simulation,
      Simulate(PlanOf("0F0,0B0\n1F0,1I0,1W0\n", 2, 1, 1, PlanMode::kStep)));

  EXPECT_EQ(simulation.timeline.ranks[0][1].start, 3);
  EXPECT_EQ(simulation.timeline.ranks[0][1].end, 5);
  EXPECT_EQ(simulation.timeline.ranks[1][2].start, 3);
}

TEST(SimulatorTest, AStepHoldsAnActivationUntilItsWeightGradientIsThere) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      Simulation split,
      Simulate(PlanOf("0F0,0I0,0F1,0I1,0W0,0W1\n", 1, 1, 2, PlanMode::kStep)));
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      Simulation whole,
      Simulate(PlanOf("0F0,0B0,0F1,0B1\n", 1, 1, 2, PlanMode::kStep)));

  EXPECT_EQ(split.peak_activations(), 2);
  EXPECT_EQ(whole.peak_activations(), 1);
}

TEST(SimulatorTest, AnEvalHoldsWhatHasArrivedUntilItIsComputed) {
  Costs slow_last;
  slow_last.stages = {{.forward = 1}, {.forward = 10}};
  const Plan plan = PlanOf(
      "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2\n"
      "1RECV_F0,1F0,1RECV_F1,1F1,1RECV_F2,1F2\n",
      2, 1, 3);

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(Simulation even, Simulate(plan));
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(Simulation uneven, Simulate(plan, slow_last));

  EXPECT_EQ(even.ranks[0].peak_activations, 0);
  EXPECT_EQ(even.ranks[1].peak_activations, 1);
  EXPECT_EQ(uneven.ranks[1].peak_activations, 3);
}

TEST(SimulatorTest, AnOverlapRunsAsItsPartsInOrder) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      Simulation simulation, Simulate(PlanOf("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n",
                                             1, 1, 2, PlanMode::kStep)));

  ASSERT_EQ(simulation.timeline.ranks[0].size(), 4u);
  EXPECT_EQ(ToString(simulation.timeline.ranks[0][1].action), "0F1");
  EXPECT_EQ(ToString(simulation.timeline.ranks[0][2].action), "0B0");
  EXPECT_EQ(simulation.makespan(), 6);
}

TEST(SimulatorTest, AnOrderThatWaitsForItselfIsRefused) {
  EXPECT_THAT(Simulate(PlanOf("2F0,0F0\n1F0,3F0\n", 2, 2, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rank 0 at 2F0, rank 1 at 1F0")));
}

TEST(SimulatorTest, CostsThatCannotBeAreRefused) {
  const Plan plan = PlanOf(kTwoStages, 2, 1, 2);
  Costs of_three;
  of_three.stages.resize(3);
  Costs negative;
  negative.stages[0].forward = -1;
  Costs endless;
  endless.message = int64_t{1} << 62;

  EXPECT_THAT(Simulate(plan, of_three),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("for 3 stages; the plan has 2")));
  EXPECT_THAT(Simulate(plan, negative),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cost of a forward is -1")));
  EXPECT_THAT(Simulate(plan, endless),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cost of a message")));
}

}  // namespace
}  // namespace pipestage
