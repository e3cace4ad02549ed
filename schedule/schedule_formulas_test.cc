// What is known of the schedules in closed form, against the simulator.
//
// F, I and W take one unit each, so that a whole backward takes two; a
// microbatch of a rank's whole share of the model takes V of each.

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "schedule/compiler.h"
#include "schedule/simulator.h"

namespace pipestage {
namespace {

Simulation Run(PlanMode mode, const char* schedule, int p, int v, int m,
               const Costs& costs = {}) {
  PlanRequest request;
  request.mode = mode;
  request.schedule = schedule;
  request.num_ranks = p;
  request.stages_per_rank = v;
  request.num_microbatches = m;
  const auto plan = CompilePlan(request);
  EXPECT_THAT(plan, IsOk()) << schedule << p << v << m;
  return *Simulate(**plan, costs);
}
Simulation RunStep(const char* schedule, int p, int v, int m) {
  return Run(PlanMode::kStep, schedule, p, v, m);
}
Simulation RunEval(const char* schedule, int p, int v, int m) {
  return Run(PlanMode::kEval, schedule, p, v, m);
}

TEST(ScheduleFormulasTest, GPipeWaitsForPMinusOneMicrobatchesAndKeepsAll) {
  for (int p : {1, 2, 4, 8}) {
    for (int m : {1, 4, 16}) {
      const Simulation step = RunStep("GPipe", p, 1, m);

      EXPECT_EQ(step.bubble, int64_t{p} * (p - 1) * 3);
      EXPECT_EQ(step.peak_activations(), m);
    }
  }
}

TEST(ScheduleFormulasTest, OneFOneBWaitsAsLongAndKeepsWhatIsAhead) {
  for (int p : {1, 2, 4, 8}) {
    for (int m : {1, 4, 16, 64}) {
      const Simulation step = RunStep("1F1B", p, 1, m);

      EXPECT_EQ(step.bubble, int64_t{p} * (p - 1) * 3) << p << " " << m;
      for (int r = 0; r < p; ++r) {
        EXPECT_EQ(step.ranks[r].peak_activations, std::min(m, p - r));
      }
    }
  }
}

TEST(ScheduleFormulasTest, InterleavingDividesTheBubbleByV) {
  for (int p : {2, 4, 8}) {
    for (int v : {2, 4}) {
      for (int rounds : {2, 4}) {
        const int m = rounds * p;
        const Simulation step = RunStep("Interleaved1F1B", p, v, m);

        // In units of a stage: (P - 1) tB and tF of a stage each, on each rank.
        EXPECT_EQ(step.bubble, int64_t{p} * (p - 1) * 3) << p << v << m;
        // p + (p - 1) / v shares of a rank, each of v stages.
        EXPECT_EQ(step.ranks[0].peak_activations, p * v + p - 1);
      }
    }
  }
}

TEST(ScheduleFormulasTest, LoopedBfsHasTheBubbleOfInterleavingAndKeepsAll) {
  for (int p : {2, 4, 8}) {
    for (int v : {1, 2, 4}) {
      for (int m : {p, 2 * p}) {
        const Simulation step = RunStep("LoopedBFS", p, v, m);

        EXPECT_EQ(step.bubble, int64_t{p} * (p - 1) * 3);
        EXPECT_EQ(step.peak_activations(), int64_t{v} * m);
      }
    }
  }
}

TEST(ScheduleFormulasTest, ZeroBubbleFillsTheBubbleWithWeightGradients) {
  for (int p : {2, 4, 8}) {
    for (int m : {2 * p, 8 * p}) {
      const Simulation step = RunStep("InterleavedZeroBubble", p, 1, m);

      // (p - 1) (tF + tB - tW), all of them one.
      EXPECT_EQ(step.bubble, int64_t{p} * (p - 1)) << p << " " << m;
      EXPECT_EQ(step.peak_activations(), p);
    }
  }
}

TEST(ScheduleFormulasTest, ZbvHasNoBubbleButThatOfItsStart) {
  for (int p : {2, 4, 8}) {
    for (int m : {2 * p, 8 * p}) {
      const Simulation step = RunStep("ZBVZeroBubble", p, 2, m);

      // Rank r waits r units for its first microbatch, and for nothing else
      // until its last W; ranks end p - 1 - r units before the last one.
      EXPECT_EQ(step.makespan(), 6 * m + p - 1) << p << " " << m;
      EXPECT_EQ(step.peak_activations(), 2 * p);
    }
  }
}

TEST(ScheduleFormulasTest, DualPipeVWithoutOverlapWaitsForHalfAForwardARank) {
  for (int p : {4, 8}) {
    for (int m : {2 * p, 8 * p}) {
      const Simulation step = RunStep("DualPipeV", p, 2, m);

      // (p - 1) / 2 tF, tF being two units of a stage.
      EXPECT_EQ(step.makespan() - 6 * m, p - 1) << p << " " << m;
      EXPECT_EQ(step.peak_activations(), 2 * p + 1);  // p + 1/2 shares of two
    }
  }
}

TEST(ScheduleFormulasTest, AnEvalWaitsForPMinusOneStagesOrAWholeShareOnAV) {
  for (int p : {1, 2, 4, 8}) {
    for (int m : {p, 2 * p, 8 * p}) {
      EXPECT_EQ(RunEval("1F1B", p, 1, m).makespan(), m + p - 1);
      EXPECT_EQ(RunEval("GPipe", p, 1, m).makespan(), m + p - 1);
      for (int v : {2, 4}) {
        for (const char* schedule :
             {"Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble"}) {
          EXPECT_EQ(RunEval(schedule, p, v, m).makespan(), v * m + p - 1);
        }
      }
      for (const char* schedule : {"ZBVZeroBubble", "DualPipeV"}) {
        EXPECT_EQ(RunEval(schedule, p, 2, m).makespan(), 2 * m + 2 * (p - 1));
      }
    }
  }
}

TEST(ScheduleFormulasTest,
     AnEvalHoldsNoMoreThanItsStagesHoweverManyMicrobatches) {
  for (int p : {2, 4, 8}) {
    EXPECT_EQ(RunEval("1F1B", p, 1, 64 * p).peak_activations(), 1);
    // A rank runs ahead by a round before it takes up what has come back.
    EXPECT_LE(RunEval("Interleaved1F1B", p, 2, 64 * p).peak_activations(),
              p + 1);
    EXPECT_LE(RunEval("ZBVZeroBubble", p, 2, 64 * p).peak_activations(), p + 1);
  }
}

TEST(ScheduleFormulasTest, FiguresOfTheTableOfKnownSchedules) {
  // Bubble over ideal time, P = 4 and M = 8.
  const auto ratio = [](const Simulation& simulation) {
    return static_cast<double>(simulation.bubble) /
           static_cast<double>(simulation.busy);
  };
  EXPECT_DOUBLE_EQ(ratio(RunStep("GPipe", 4, 1, 8)), 0.375);
  EXPECT_DOUBLE_EQ(ratio(RunStep("Interleaved1F1B", 4, 2, 8)), 0.1875);
  EXPECT_DOUBLE_EQ(ratio(RunStep("Interleaved1F1B", 4, 4, 8)), 0.09375);
  EXPECT_DOUBLE_EQ(ratio(RunStep("InterleavedZeroBubble", 4, 1, 8)), 0.125);
  EXPECT_DOUBLE_EQ(ratio(RunStep("DualPipeV", 4, 2, 8)), 0.0625);
  EXPECT_DOUBLE_EQ(ratio(RunEval("Interleaved1F1B", 4, 2, 8)), 0.1875);
  EXPECT_DOUBLE_EQ(ratio(RunEval("ZBVZeroBubble", 4, 2, 8)), 0.375);
}

}  // namespace
}  // namespace pipestage
