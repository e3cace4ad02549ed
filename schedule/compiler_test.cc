#include "schedule/compiler.h"

#include <set>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "schedule/schedule_registry.h"
#include "schedule/simulator.h"
#include "schedule/verifier.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

PlanRequest Request(absl::string_view schedule, int p, int v, int m) {
  PlanRequest request;
  request.schedule = std::string(schedule);
  request.num_ranks = p;
  request.stages_per_rank = v;
  request.num_microbatches = m;
  return request;
}

TEST(CompilePlanTest, APlanIsTheForwardsWithSendsAndReceives) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto plan,
                                 CompilePlan(Request("gpipe", 2, 1, 2)));

  EXPECT_EQ(plan->schedule, "GPipe");
  EXPECT_EQ(plan->num_microbatches, 2);
  EXPECT_EQ(plan->num_stages(), 2);
  EXPECT_EQ(ToCsv(plan->ranks),
            "0F0,0SEND_F0,0F1,0SEND_F1\n"
            "1RECV_F0,1F0,1RECV_F1,1F1\n");
}

TEST(CompilePlanTest, EveryScheduleTakesAnyNumbersWithoutWastingTime) {
  for (const Schedule& schedule : AvailableSchedules()) {
    for (int p = 1; p <= 4; ++p) {
      for (int v = 1; v <= 3; ++v) {
        if (!CheckShape(schedule, {p, v, 1}).ok()) continue;
        for (int m = 1; m <= 9; ++m) {
          SCOPED_TRACE(absl::StrCat(schedule.name, " ", p, " ", v, " ", m));
          PIPESTAGE_ASSERT_OK_AND_ASSIGN(
              auto plan, CompilePlan(Request(schedule.name, p, v, m)));
          PIPESTAGE_ASSERT_OK_AND_ASSIGN(Simulation times, Simulate(*plan));

          EXPECT_THAT(VerifyPlan(*plan), IsOk());
          // The last stage cannot start its last microbatch earlier: the first
          // rank is busy for v * m steps, or waits for each turn round the
          // ranks.
          const int turns = (v - 1) * std::max(p, m);
          if (schedule.placement == StagePlacement::kLoop) {
            EXPECT_EQ(times.makespan(), turns + m + p - 1);
          } else {
            // The rank at the turn starts after p - 1 steps, is busy for 2m,
            // and its last microbatch passes p - 1 more stages.
            EXPECT_EQ(times.makespan(), 2 * m + 2 * (p - 1));
          }
        }
      }
    }
  }
}

TEST(CompilePlanTest, OneForwardAheadOfTheNextRoundBoundsWhatIsInFlight) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto plan,
                                 CompilePlan(Request("1F1B", 2, 2, 100)));

  // Rank 0 takes up stage 2 after the first round, not after all microbatches.
  EXPECT_EQ(ToString(plan->ranks[0][6]), "2F0");
}

TEST(CompilePlanTest, EqualPlansHaveEqualIdsAndOthersDiffer) {
  std::set<std::string> ids;
  for (const Schedule& schedule : AvailableSchedules()) {
    for (int m = 1; m <= 9; ++m) {
      ids.insert((*CompilePlan(Request(schedule.name, 2, 2, m)))->id);
    }
  }

  EXPECT_EQ(ids.size(), AvailableSchedules().size() * 9);
  EXPECT_EQ((*CompilePlan(Request("1f1b", 2, 2, 9)))->id,
            (*CompilePlan(Request("1F1B", 2, 2, 9)))->id);
}

TEST(CompilePlanTest, ManyRanksAndMicrobatchesAreCompiledInTime) {
  for (const Schedule& schedule : AvailableSchedules()) {
    const int v = schedule.stages_per_rank > 0 ? schedule.stages_per_rank : 4;
    const absl::Time start = absl::Now();

    EXPECT_THAT(CompilePlan(Request(schedule.name, 64, v, 512)), IsOk());

    EXPECT_LT(absl::Now() - start, absl::Seconds(2)) << schedule.name;
  }
}

TEST(CompilePlanTest, NumbersThatNameNothingAreRefused) {
  EXPECT_THAT(CompilePlan(Request("1F1B", 0, 1, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("number of ranks is 0; at least 1")));
  EXPECT_THAT(CompilePlan(Request("1F1B", 1, -1, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("stages per rank is -1")));
  EXPECT_THAT(CompilePlan(Request("1F1B", 1, 1, 0)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("microbatches is 0")));
}

TEST(CompilePlanTest, WhatIsTooLargeIsRefusedWithTheNearestThatIsNot) {
  EXPECT_THAT(CompilePlan(Request("1F1B", 4, 1, 1 << 30)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("1073741824 microbatches of 4 stages"),
                             HasSubstr("at most 1048576"))));
  EXPECT_THAT(CompilePlan(Request("1F1B", 1 << 30, 1 << 30, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("stages are too many")));
}

TEST(CompilePlanTest, AnEvalBelongsToNoPlacement) {
  // Any schedule's forwards run on any placement of as many stages, and come to
  // an end.
  for (const Schedule& schedule : AvailableSchedules()) {
    for (StagePlacement placement :
         {StagePlacement::kLoop, StagePlacement::kV}) {
      for (int p = 1; p <= 5; ++p) {
        for (int v = 1; v <= 3; ++v) {
          if (!CheckShape(schedule, {p, v, 1}).ok()) continue;
          for (int m = 1; m <= 9; ++m) {
            PlanRequest request = Request(schedule.name, p, v, m);
            request.placement = placement;

            PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto plan, CompilePlan(request));

            EXPECT_EQ(plan->stage_ranks, PlaceStages(placement, p, v));
          }
        }
      }
    }
  }
}

TEST(CompilePlanTest, TheBestOrderIsNoSlowerThanAnyScheduleAndHoldsNoMore) {
  for (StagePlacement placement : {StagePlacement::kLoop, StagePlacement::kV}) {
    for (int p = 1; p <= 4; ++p) {
      for (int v = 1; v <= 3; ++v) {
        for (int m : {1, 2, 3, 5, 8, 13}) {
          SCOPED_TRACE(absl::StrCat(PlacementName(placement), p, v, m));
          PlanRequest request = Request("1F1B", p, v, m);
          request.placement = placement;
          request.eval_order = EvalOrder::kBest;
          PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto best, CompilePlan(request));
          PIPESTAGE_ASSERT_OK_AND_ASSIGN(Simulation time, Simulate(*best));

          request.eval_order = EvalOrder::kSchedule;
          for (const Schedule& schedule : AvailableSchedules()) {
            if (!CheckShape(schedule, {p, v, m}).ok()) continue;
            request.schedule = std::string(schedule.name);
            const Simulation other = *Simulate(**CompilePlan(request));
            EXPECT_LE(time.makespan(), other.makespan()) << schedule.name;
            if (time.makespan() == other.makespan()) {
              EXPECT_LE(time.peak_activations(), other.peak_activations())
                  << schedule.name;
            }
          }
        }
      }
    }
  }
}

TEST(CompilePlanTest, AStepNeedsThePlacementOfItsSchedule) {
  PlanRequest request = Request("ZBVZeroBubble", 2, 2, 4);
  request.mode = PlanMode::kStep;
  EXPECT_THAT(CompilePlan(request), IsOk());
  request.placement = StagePlacement::kV;
  EXPECT_THAT(CompilePlan(request), IsOk());
  request.placement = StagePlacement::kLoop;
  EXPECT_THAT(CompilePlan(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a Step by schedule ZBVZeroBubble needs v "
                                 "placement of stages; these are in loop "
                                 "placement")));
  // Where both are the same there is nothing to refuse.
  request.num_ranks = 1;
  EXPECT_THAT(CompilePlan(request), IsOk());
}

TEST(CompilePlanTest, AStepIsTheWholeOrderWithItsMessages) {
  PlanRequest request = Request("1F1B", 2, 1, 2);
  request.mode = PlanMode::kStep;

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto plan, CompilePlan(request));

  EXPECT_EQ(ToCsv(plan->ranks),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,"
            "1REDUCE_GRAD\n");
}

TEST(CompilePlanTest, EveryStepOfEveryScheduleVerifies) {
  for (const Schedule& schedule : AvailableSchedules()) {
    for (int p : {1, 2, 3, 4, 5, 8}) {
      for (int v = 1; v <= 4; ++v) {
        if (!CheckShape(schedule, {p, v, 1}).ok()) continue;
        for (int m = 1; m <= 16; ++m) {
          PlanRequest request = Request(schedule.name, p, v, m);
          request.mode = PlanMode::kStep;
          request.sharded = m % 2 == 0;
          request.merge_backward = m % 3 == 0;

          EXPECT_THAT(CompilePlan(request), IsOk())
              << schedule.name << " " << p << " " << v << " " << m;
        }
      }
    }
  }
}

TEST(CompilePlanTest, MergingLeavesNoInputGradientNextToItsWeightGradient) {
  PlanRequest request = Request("ZBVZeroBubble", 2, 2, 6);
  request.mode = PlanMode::kStep;
  request.merge_backward = true;

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto plan, CompilePlan(request));

  EXPECT_THAT(ToCsv(plan->ranks), HasSubstr("3B0"));
}

TEST(CompilePlanTest, WhatIsUnknownIsRefusedWithWhatIsKnown) {
  EXPECT_THAT(CompilePlan(Request("nonsense", 2, 1, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("there are 1F1B, GPipe")));
  EXPECT_THAT(CompilePlan(Request("DualPipeV", 2, 3, 4)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("takes 2 stages per rank, not 3")));
  PlanRequest best_step = Request("1F1B", 2, 1, 2);
  best_step.mode = PlanMode::kStep;
  best_step.eval_order = EvalOrder::kBest;
  EXPECT_THAT(
      CompilePlan(best_step),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is for Eval")));
}

}  // namespace
}  // namespace pipestage
