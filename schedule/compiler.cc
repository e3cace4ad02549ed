#include "schedule/compiler.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/status_macros.h"
#include "schedule/best_order.h"
#include "schedule/passes/forward_only.h"
#include "schedule/passes/lowering.h"
#include "schedule/passes/relocate.h"
#include "schedule/placement.h"
#include "schedule/plan_digest.h"
#include "schedule/schedule_registry.h"
#include "schedule/user_order.h"
#include "schedule/verifier.h"

namespace pipestage {
namespace {

// What a plan may hold at most: a limit on memory, far above what is of use.
constexpr int64_t kMaxForwards = int64_t{1} << 22;

absl::Status CheckAtLeastOne(absl::string_view what, int value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", value, "; at least 1 is needed"));
}

absl::Status CheckNumbers(const PlanRequest& request) {
  PIPESTAGE_RETURN_IF_ERROR(
      CheckAtLeastOne("the number of ranks", request.num_ranks));
  PIPESTAGE_RETURN_IF_ERROR(CheckAtLeastOne("the number of stages per rank",
                                            request.stages_per_rank));
  PIPESTAGE_RETURN_IF_ERROR(
      CheckAtLeastOne("the number of microbatches", request.num_microbatches));
  const int64_t num_stages =
      int64_t{request.num_ranks} * request.stages_per_rank;
  if (num_stages > kMaxForwards) {
    return absl::InvalidArgumentError(absl::StrCat(
        num_stages, " stages are too many; at most ", kMaxForwards));
  }
  const int64_t most = kMaxForwards / num_stages;
  if (request.num_microbatches > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.num_microbatches, " microbatches of ", num_stages,
                     " stages are too many; at most ", most));
  }
  return absl::OkStatus();
}

ScheduleShape ShapeOf(const PlanRequest& request) {
  return {request.num_ranks, request.stages_per_rank, request.num_microbatches};
}

std::vector<Rank> StageRanks(const PlanRequest& request,
                             StagePlacement placement) {
  return PlaceStages(placement, request.num_ranks, request.stages_per_rank);
}

// On one rank, or with one stage on each, both placements are the same.
absl::Status CheckStepPlacement(const Schedule& schedule,
                                const PlanRequest& request) {
  if (!request.placement || *request.placement == schedule.placement ||
      request.num_ranks == 1 || request.stages_per_rank == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a Step by schedule ", schedule.name, " needs ",
      PlacementName(schedule.placement), " placement of stages; these are in ",
      PlacementName(*request.placement), " placement"));
}

absl::Status OurFault(const absl::Status& status) {
  return WithReason(absl::InternalError(status.message()),
                    reason::kPlanInvalid);
}

std::vector<std::vector<int>> ForwardPositions(const Plan& plan) {
  std::vector<std::vector<int>> positions(
      plan.num_stages(), std::vector<int>(plan.num_microbatches));
  for (const auto& row : plan.ranks) {
    for (size_t i = 0; i < row.size(); ++i) {
      ForEachPart(row[i], [&](const Action& part) {
        if (part.kind != ActionKind::kForward) return;
        positions[part.stage.value()][part.microbatch.value()] =
            static_cast<int>(i);
      });
    }
  }
  return positions;
}

// Everything of a plan but its rows.
std::shared_ptr<Plan> NewPlan(const PlanRequest& request,
                              absl::string_view schedule,
                              std::vector<Rank> stage_ranks) {
  auto plan = std::make_shared<Plan>();
  plan->mode = request.mode;
  plan->schedule = std::string(schedule);
  plan->num_microbatches = request.num_microbatches;
  plan->stage_ranks = std::move(stage_ranks);
  return plan;
}

absl::StatusOr<ActionRows> LowerFor(const Plan& plan,
                                    const PlanRequest& request,
                                    ActionRows order) {
  return Lower(std::move(order),
               {plan.stage_ranks, plan.num_microbatches, plan.mode,
                request.sharded, request.merge_backward});
}

void Seal(Plan& plan) {
  plan.forward_positions = ForwardPositions(plan);
  plan.id = PlanDigest(plan);
}

// The order of compute on stages placed so.
absl::StatusOr<ActionRows> OrderOf(const Schedule& schedule,
                                   const PlanRequest& request,
                                   StagePlacement placement) {
  const ScheduleShape shape = ShapeOf(request);
  if (request.mode == PlanMode::kStep) return schedule.generate(shape);
  if (request.eval_order == EvalOrder::kBest) {
    return BestForwardOrder(placement, shape);
  }
  return Relocate(ForwardOnly(schedule.generate(shape)),
                  StageRanks(request, schedule.placement),
                  StageRanks(request, placement));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Plan>> CompilePlan(
    const PlanRequest& request) {
  PIPESTAGE_ASSIGN_OR_RETURN(const Schedule* schedule,
                             FindSchedule(request.schedule));
  PIPESTAGE_RETURN_IF_ERROR(CheckNumbers(request));
  const bool best = request.eval_order == EvalOrder::kBest;
  if (request.mode == PlanMode::kStep) {
    if (best) {
      return absl::InvalidArgumentError(
          "the order \"best\" is for Eval; a Step runs its schedule's own");
    }
    PIPESTAGE_RETURN_IF_ERROR(CheckStepPlacement(*schedule, request));
  }
  if (!best) PIPESTAGE_RETURN_IF_ERROR(CheckShape(*schedule, ShapeOf(request)));

  const StagePlacement placement =
      request.placement.value_or(schedule->placement);
  auto plan = NewPlan(request, schedule->name, StageRanks(request, placement));
  PIPESTAGE_ASSIGN_OR_RETURN(ActionRows order,
                             OrderOf(*schedule, request, placement));
  absl::StatusOr<ActionRows> lowered =
      LowerFor(*plan, request, std::move(order));
  if (!lowered.ok()) return OurFault(lowered.status());
  plan->ranks = *std::move(lowered);
  PIPESTAGE_RETURN_IF_ERROR(VerifyPlan(*plan));
  Seal(*plan);
  return plan;
}

absl::StatusOr<std::shared_ptr<const Plan>> CompileUserOrder(
    const PlanRequest& request, const ActionRows& order) {
  PIPESTAGE_RETURN_IF_ERROR(CheckNumbers(request));
  PIPESTAGE_ASSIGN_OR_RETURN(std::vector<Rank> stage_ranks,
                             InferStageRanks(order, ShapeOf(request)));
  if (request.placement) stage_ranks = StageRanks(request, *request.placement);
  auto plan = NewPlan(request, request.schedule, std::move(stage_ranks));
  plan->ranks = request.mode == PlanMode::kEval ? ForwardOnly(order) : order;
  PIPESTAGE_RETURN_IF_ERROR(
      CompleteUserOrder(*plan, request.sharded, request.merge_backward));
  Seal(*plan);
  return plan;
}

}  // namespace pipestage
