#include "schedule/user_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "schedule/passes/add_reduce_grad.h"
#include "schedule/passes/compute_only.h"
#include "schedule/passes/lowering.h"
#include "schedule/verifier.h"

namespace pipestage {
namespace {

bool IsMessage(const Action& action) {
  return HasMicrobatch(action.kind) && !IsCompute(action.kind);
}

bool IsReduceGrad(const Action& action) {
  return action.kind == ActionKind::kReduceGrad;
}

bool AnyOf(const ActionRows& rows, bool (*is_one)(const Action&)) {
  return std::any_of(rows.begin(), rows.end(), [&](const auto& row) {
    return std::any_of(row.begin(), row.end(), is_one);
  });
}

absl::Status UsersFault(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(status.message());
}

// How many actions of each stage are in each row, [stage][rank].
std::vector<std::map<int, int>> CountActions(const ActionRows& rows,
                                             int num_stages) {
  std::vector<std::map<int, int>> counts(num_stages);
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    for (const Action& action : rows[rank]) {
      ForEachPart(action, [&](const Action& part) {
        const int stage = part.stage.value();
        if (stage >= 0 && stage < num_stages) {
          ++counts[stage][static_cast<int>(rank)];
        }
      });
    }
  }
  return counts;
}

absl::Status CheckStagesPerRank(const std::vector<Rank>& owners,
                                const ScheduleShape& shape) {
  std::vector<int> owned(shape.num_ranks, 0);
  for (const Rank owner : owners) ++owned[owner.value()];
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    if (owned[rank] == shape.stages_per_rank) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " owns ", owned[rank], " stages by its row; ",
        shape.stages_per_rank, " stages per rank were given"));
  }
  return absl::OkStatus();
}

}  // namespace

bool HasMessages(const ActionRows& rows) { return AnyOf(rows, IsMessage); }

absl::StatusOr<std::vector<Rank>> InferStageRanks(const ActionRows& rows,
                                                  const ScheduleShape& shape) {
  if (rows.size() != static_cast<size_t>(shape.num_ranks)) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", rows.size(), " rows; one for each of ",
                     shape.num_ranks, " ranks is needed"));
  }
  const int num_stages = shape.num_ranks * shape.stages_per_rank;
  const auto counts = CountActions(rows, num_stages);
  std::vector<Rank> owners;
  for (int stage = 0; stage < num_stages; ++stage) {
    if (counts[stage].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("no row has an action of stage ", stage, "; there are ",
                       num_stages, " stages"));
    }
    const auto most = std::max_element(
        counts[stage].begin(), counts[stage].end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    owners.push_back(Rank(most->first));
  }
  PIPESTAGE_RETURN_IF_ERROR(CheckStagesPerRank(owners, shape));
  return owners;
}

absl::Status CompleteUserOrder(Plan& plan, bool sharded, bool merge_backward) {
  if (!HasMessages(plan.ranks)) {
    PIPESTAGE_RETURN_IF_ERROR(UsersFault(VerifyOrder(plan)));
    PIPESTAGE_ASSIGN_OR_RETURN(
        plan.ranks, Lower(ComputeOnly(std::move(plan.ranks)),
                          {plan.stage_ranks, plan.num_microbatches, plan.mode,
                           sharded, merge_backward}));
  } else if (plan.mode == PlanMode::kStep && !AnyOf(plan.ranks, IsReduceGrad)) {
    plan.ranks = AddReduceGrad(plan.ranks, plan.num_microbatches);
  }
  return UsersFault(VerifyPlan(plan));
}

absl::Status CheckUserOrder(const ActionRows& rows, const ScheduleShape& shape,
                            PlanMode mode) {
  Plan plan;
  plan.mode = mode;
  plan.num_microbatches = shape.num_microbatches;
  PIPESTAGE_ASSIGN_OR_RETURN(plan.stage_ranks, InferStageRanks(rows, shape));
  plan.ranks = rows;
  return CompleteUserOrder(plan);
}

}  // namespace pipestage
