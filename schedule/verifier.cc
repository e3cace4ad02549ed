#include "schedule/verifier.h"

#include <vector>

#include "base/status_macros.h"
#include "schedule/action_rules.h"
#include "schedule/message_rules.h"
#include "schedule/plan_error.h"

namespace pipestage {
namespace {

absl::Status CheckPlacement(const Plan& plan) {
  if (plan.num_microbatches < 1) {
    return WrongPlan("it has ", plan.num_microbatches, " microbatches");
  }
  std::vector<bool> owns(plan.num_ranks(), false);
  for (int stage = 0; stage < plan.num_stages(); ++stage) {
    const int owner = plan.stage_ranks[stage].value();
    if (owner < 0 || owner >= plan.num_ranks()) {
      return WrongPlan("stage ", stage, " is on rank ", owner,
                       ", but there are ", plan.num_ranks(), " rows");
    }
    owns[owner] = true;
  }
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    if (!owns[rank]) {
      return WrongPlan("there are ", plan.num_ranks(), " rows, but rank ", rank,
                       " owns no stage");
    }
  }
  if (plan.ranks.empty()) return WrongPlan("it has no rows");
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyPlan(const Plan& plan) {
  PIPESTAGE_RETURN_IF_ERROR(CheckPlacement(plan));
  PIPESTAGE_RETURN_IF_ERROR(CheckActions(plan));
  return CheckMessages(plan);
}

absl::Status VerifyOrder(const Plan& order) {
  PIPESTAGE_RETURN_IF_ERROR(CheckPlacement(order));
  return CheckActions(order, RuleSet::kComputeOnly);
}

}  // namespace pipestage
