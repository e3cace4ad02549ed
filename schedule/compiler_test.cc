#include "schedule/compiler.h"

#include <set>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "schedule/schedule_registry.h"
#include "schedule/unit_time.h"
#include "schedule/verifier.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

PlanRequest Request(absl::string_view schedule, int p, int v, int m) {
  return {PlanMode::kEval, std::string(schedule), p, v, m};
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
          PIPESTAGE_ASSERT_OK_AND_ASSIGN(UnitTimes times,
                                         SimulateUnitTime(*plan));

          EXPECT_THAT(VerifyPlan(*plan), IsOk());
          // The last stage cannot start its last microbatch earlier: the first
          // rank is busy for v * m steps, or waits for each turn round the
          // ranks.
          const int turns = (v - 1) * std::max(p, m);
          if (schedule.placement == StagePlacement::kLoop) {
            EXPECT_EQ(times.num_steps, turns + m + p - 1);
          } else {
            // The rank at the turn starts after p - 1 steps, is busy for 2m,
            // and its last microbatch passes p - 1 more stages.
            EXPECT_EQ(times.num_steps, 2 * m + 2 * (p - 1));
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

TEST(CompilePlanTest, AScheduleThatNeedsAnotherPlacementIsRefused) {
  PlanRequest request = Request("ZBVZeroBubble", 2, 2, 4);
  EXPECT_THAT(CompilePlan(request), IsOk());
  request.placement = StagePlacement::kV;
  EXPECT_THAT(CompilePlan(request), IsOk());
  request.placement = StagePlacement::kLoop;
  EXPECT_THAT(CompilePlan(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("ZBVZeroBubble needs v placement of stages; "
                                 "these are in loop placement")));
  // Where both are the same there is nothing to refuse.
  request.num_ranks = 1;
  EXPECT_THAT(CompilePlan(request), IsOk());
  EXPECT_THAT(CompilePlan(Request("DualPipeV", 2, 3, 4)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("takes 2 stages per rank, not 3")));
}

TEST(CompilePlanTest, UnknownSchedulesAndStepPlansAreRefused) {
  EXPECT_THAT(CompilePlan(Request("nonsense", 2, 1, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("there are 1F1B, GPipe")));
  EXPECT_THAT(CompilePlan({PlanMode::kStep, "1F1B", 2, 1, 2}),
              StatusIs(absl::StatusCode::kUnimplemented));
}

}  // namespace
}  // namespace pipestage
