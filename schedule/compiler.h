#ifndef PIPESTAGE_SCHEDULE_COMPILER_H_
#define PIPESTAGE_SCHEDULE_COMPILER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "schedule/placement.h"
#include "schedule/plan.h"

namespace pipestage {

struct PlanRequest {
  PlanMode mode = PlanMode::kEval;
  std::string schedule = "1F1B";  // in any case
  int num_ranks = 1;              // P >= 1
  int stages_per_rank = 1;        // V >= 1
  int num_microbatches = 1;       // M >= 1
  // Where the stages are, if that is given already: a model's, once it is
  // loaded. Unset: where the schedule wants them.
  std::optional<StagePlacement> placement;
};

// From a schedule's name to a verified plan: generate the order, keep what the
// mode needs, add sends and receives, verify. Pure.
//
// Errors: InvalidArgument for an unknown schedule (naming those there are),
// numbers the schedule cannot take (with those it can), or stages that are not
// where it wants them; Internal, reason
// PLAN_INVALID, if the verifier refuses what we made.
absl::StatusOr<std::shared_ptr<const Plan>> CompilePlan(
    const PlanRequest& request);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_COMPILER_H_
