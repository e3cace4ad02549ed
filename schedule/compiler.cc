#include "schedule/compiler.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/status_macros.h"
#include "schedule/passes/add_send_recv.h"
#include "schedule/passes/forward_only.h"
#include "schedule/placement.h"
#include "schedule/plan_digest.h"
#include "schedule/schedule_registry.h"
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
  if (request.mode != PlanMode::kEval) {
    return absl::UnimplementedError("only Eval plans can be compiled");
  }
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

// On one rank, or with one stage on each, both placements are the same.
absl::Status CheckPlacement(const Schedule& schedule,
                            const PlanRequest& request) {
  if (!request.placement || *request.placement == schedule.placement ||
      request.num_ranks == 1 || request.stages_per_rank == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "schedule ", schedule.name, " needs ", PlacementName(schedule.placement),
      " placement of stages; these are in ", PlacementName(*request.placement),
      " placement"));
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
      if (row[i].kind != ActionKind::kForward) continue;
      positions[row[i].stage.value()][row[i].microbatch.value()] =
          static_cast<int>(i);
    }
  }
  return positions;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Plan>> CompilePlan(
    const PlanRequest& request) {
  PIPESTAGE_ASSIGN_OR_RETURN(const Schedule* schedule,
                             FindSchedule(request.schedule));
  PIPESTAGE_RETURN_IF_ERROR(CheckNumbers(request));
  const ScheduleShape shape = {request.num_ranks, request.stages_per_rank,
                               request.num_microbatches};
  PIPESTAGE_RETURN_IF_ERROR(CheckShape(*schedule, shape));
  PIPESTAGE_RETURN_IF_ERROR(CheckPlacement(*schedule, request));

  auto plan = std::make_shared<Plan>();
  plan->mode = request.mode;
  plan->schedule = std::string(schedule->name);
  plan->num_microbatches = request.num_microbatches;
  plan->stage_ranks = PlaceStages(schedule->placement, request.num_ranks,
                                  request.stages_per_rank);
  const ActionRows forwards = ForwardOnly(schedule->generate(shape));
  absl::StatusOr<ActionRows> lowered =
      AddSendRecv(forwards, plan->stage_ranks, request.num_microbatches);
  if (!lowered.ok()) return OurFault(lowered.status());
  plan->ranks = *std::move(lowered);
  PIPESTAGE_RETURN_IF_ERROR(VerifyPlan(*plan));
  plan->forward_positions = ForwardPositions(*plan);
  plan->id = PlanDigest(*plan);
  return plan;
}

}  // namespace pipestage
