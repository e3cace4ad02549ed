#ifndef PIPESTAGE_SCHEDULE_SIMULATOR_H_
#define PIPESTAGE_SCHEDULE_SIMULATOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedule/plan.h"

namespace pipestage {

// How long one stage's compute takes for one microbatch. Any unit, the same
// everywhere.
struct StageCosts {
  int64_t forward = 1;
  int64_t backward_input = 1;   // I
  int64_t backward_weight = 1;  // W
  int64_t backward = 2;         // B, as one
};

struct Costs {
  // By stage; one entry: the same for all.
  std::vector<StageCosts> stages = std::vector<StageCosts>(1);
  // From the end of an action until what it made is on another rank.
  int64_t message = 0;
  int64_t message_bytes = 0;  // of one activation or gradient between stages
  // What a stage keeps of one microbatch from its forward to its backward.
  int64_t activation_bytes = 0;

  const StageCosts& of(StageIndex stage) const {
    return stages.size() == 1 ? stages[0] : stages[stage.value()];
  }
};

// When each compute action runs if each starts as soon as its rank is free and
// its data is there. Sends and receives take no time of a rank. The two parts
// of an OVERLAP_F_B are two spans.
struct Timeline {
  struct Span {
    Action action;
    int64_t start = 0;
    int64_t end = 0;
  };
  std::vector<std::vector<Span>> ranks;
  int64_t makespan = 0;  // from the first start to the last end
};

struct Simulation {
  struct RankUse {
    int64_t busy = 0;
    int64_t bubble = 0;  // makespan - busy
    // Step: most (stage, microbatch) pairs that were forward and whose backward
    // (B or W) had not ended. Eval: most that had arrived from another stage
    // and not been computed. Those of the call's own inputs do not count.
    int64_t peak_activations = 0;
    int64_t messages_sent = 0;
  };

  Timeline timeline;
  std::vector<RankUse> ranks;
  int64_t busy = 0;      // of all ranks
  int64_t bubble = 0;    // of all ranks
  int64_t messages = 0;  // of all ranks
  int64_t bytes = 0;     // in all messages

  int64_t makespan() const { return timeline.makespan; }
  int64_t peak_activations() const;  // of the rank that has most
  // bubble / (busy + bubble), the share of the time that ranks wait.
  double bubble_ratio() const;
};

// Exact in integers.
//
// Errors: InvalidArgument if costs are negative or above 10^12, or are for
// another number of stages, or if the plan waits for itself, which a verified
// plan never does.
absl::StatusOr<Simulation> Simulate(const Plan& plan, const Costs& costs = {});

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_SIMULATOR_H_
