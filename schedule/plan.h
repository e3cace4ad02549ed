#ifndef PIPESTAGE_SCHEDULE_PLAN_H_
#define PIPESTAGE_SCHEDULE_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "proto/plan.pb.h"
#include "schedule/action.h"

namespace pipestage {

enum class PlanMode { kEval, kStep };

// A schedule lowered for given ranks: what workers execute. Verified before it
// exists (see compiler.h), immutable after.
struct Plan {
  std::string id;  // a digest of everything below: equal plans have equal ids
  PlanMode mode = PlanMode::kEval;
  std::string schedule;  // canonical name, "1F1B"
  int num_microbatches = 0;
  std::vector<Rank> stage_ranks;  // owner of each stage
  ActionRows ranks;
  // Derived: where in its owner's row the forward of a stage and a microbatch
  // is, [stage][microbatch].
  std::vector<std::vector<int>> forward_positions;

  int num_ranks() const { return static_cast<int>(ranks.size()); }
  int num_stages() const { return static_cast<int>(stage_ranks.size()); }
  Rank owner(StageIndex stage) const { return stage_ranks[stage.value()]; }
};

// One rank's part of a plan, as the worker holds it.
struct RankPlan {
  std::string id;
  Rank rank;
  int num_ranks = 0;
  int num_microbatches = 0;
  std::vector<Rank> stage_ranks;
  std::vector<Action> actions;

  int num_stages() const { return static_cast<int>(stage_ranks.size()); }
  Rank owner(StageIndex stage) const { return stage_ranks[stage.value()]; }
};

v1::RankPlan EncodeRankPlan(const Plan& plan, Rank rank);
// InvalidArgument if lengths differ, a kind is unknown, or a stage, rank or
// microbatch is out of range: a worker never executes what it could not have
// been sent.
absl::StatusOr<RankPlan> DecodeRankPlan(const v1::RankPlan& plan);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_PLAN_H_
