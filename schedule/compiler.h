#ifndef PIPESTAGE_SCHEDULE_COMPILER_H_
#define PIPESTAGE_SCHEDULE_COMPILER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "schedule/placement.h"
#include "schedule/plan.h"

namespace pipestage {

// Which forwards an Eval runs.
enum class EvalOrder {
  kSchedule,  // the schedule's own, in its order
  kBest,      // those that end soonest on this placement (best_order.h)
};

struct PlanRequest {
  PlanMode mode = PlanMode::kEval;
  std::string schedule = "1F1B";  // in any case
  int num_ranks = 1;              // P >= 1
  int stages_per_rank = 1;        // V >= 1
  int num_microbatches = 1;       // M >= 1
  // Where the stages are, if that is given already: a model's, once it is
  // loaded. Unset: where the schedule wants them. An Eval is compiled for any
  // placement (passes/relocate.h); a Step only for the schedule's own.
  std::optional<StagePlacement> placement;
  EvalOrder eval_order = EvalOrder::kSchedule;
  // Step: as LoweringContext.
  bool sharded = false;
  bool merge_backward = false;
};

// From a schedule's name to a verified plan: generate the order, keep what the
// mode needs, lower it (passes/lowering.h), verify. Pure.
//
// Errors: InvalidArgument for an unknown schedule (naming those there are),
// numbers the schedule cannot take (with those it can), or stages that are not
// where it wants them; Internal, reason PLAN_INVALID, if the verifier refuses
// what we made.
absl::StatusOr<std::shared_ptr<const Plan>> CompilePlan(
    const PlanRequest& request);

// The same for an order that a person gives, which `request.schedule` names:
// from its forwards for an Eval, whatever else it holds; for a Step with the
// messages it has, or with those that the lowering adds if it has none. The
// stages are where its rows have them, and request.placement, if given, must
// agree.
//
// Errors: InvalidArgument, naming the first wrong action.
absl::StatusOr<std::shared_ptr<const Plan>> CompileUserOrder(
    const PlanRequest& request, const ActionRows& order);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_COMPILER_H_
