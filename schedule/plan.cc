#include "schedule/plan.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

template <typename... Parts>
absl::Status Malformed(const v1::RankPlan& plan, const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat("plan \"", plan.plan_id(), "\": ", parts...));
}

absl::Status CheckHeader(const v1::RankPlan& plan) {
  if (plan.plan_id().empty()) return Malformed(plan, "it has no id");
  if (plan.num_ranks() < 1) {
    return Malformed(plan, "num_ranks is ", plan.num_ranks(), "; at least 1");
  }
  if (plan.rank() < 0 || plan.rank() >= plan.num_ranks()) {
    return Malformed(plan, "rank ", plan.rank(), " is not one of ",
                     plan.num_ranks());
  }
  if (plan.num_microbatches() < 1) {
    return Malformed(plan, "num_microbatches is ", plan.num_microbatches(),
                     "; at least 1");
  }
  if (plan.num_stages() < 1 || plan.stage_ranks_size() != plan.num_stages()) {
    return Malformed(plan, "stage_ranks has ", plan.stage_ranks_size(),
                     " entries for ", plan.num_stages(), " stages");
  }
  for (int stage = 0; stage < plan.num_stages(); ++stage) {
    const int owner = plan.stage_ranks(stage);
    if (owner < 0 || owner >= plan.num_ranks()) {
      return Malformed(plan, "stage ", stage, " is on rank ", owner,
                       ", which is not one of ", plan.num_ranks());
    }
  }
  if (plan.stages_size() != plan.kinds_size() ||
      plan.microbatches_size() != plan.kinds_size()) {
    return Malformed(plan, "it has ", plan.kinds_size(), " kinds, ",
                     plan.stages_size(), " stages and ",
                     plan.microbatches_size(), " microbatches");
  }
  return absl::OkStatus();
}

// Whether the other side of a communication is a stage that exists.
bool HasPeer(const Action& action, int num_stages) {
  switch (action.kind) {
    case ActionKind::kSendForward:
    case ActionKind::kRecvBackward:
      return action.stage.value() + 1 < num_stages;
    case ActionKind::kRecvForward:
    case ActionKind::kSendBackward:
      return action.stage.value() > 0;
    default:
      return true;
  }
}

absl::StatusOr<Action> DecodeAction(const v1::RankPlan& plan, int i) {
  const int kind = plan.kinds(i);
  if (kind < static_cast<int>(ActionKind::kForward) ||
      kind > static_cast<int>(ActionKind::kReduceGrad)) {
    return Malformed(plan, "action ", i, " has the unknown kind ", kind);
  }
  const Action action{StageIndex(plan.stages(i)), static_cast<ActionKind>(kind),
                      MicrobatchIndex(plan.microbatches(i))};
  const int stage = action.stage.value();
  if (stage < 0 || stage >= plan.num_stages()) {
    return Malformed(plan, "action ", i, " is on stage ", stage,
                     ", which is not one of ", plan.num_stages());
  }
  if (plan.stage_ranks(stage) != plan.rank()) {
    return Malformed(plan, "action ", i, " (", ToString(action),
                     ") is on a stage of rank ", plan.stage_ranks(stage),
                     ", not of rank ", plan.rank());
  }
  const int microbatch = action.microbatch.value();
  const bool in_range =
      HasMicrobatch(action.kind)
          ? microbatch >= 0 && microbatch < plan.num_microbatches()
          : microbatch == -1;
  if (!in_range) {
    return Malformed(plan, "action ", i, " (", ActionKindName(action.kind),
                     ") has microbatch ", microbatch, " of ",
                     plan.num_microbatches());
  }
  if (!HasPeer(action, plan.num_stages())) {
    return Malformed(plan, "action ", i, " (", ToString(action),
                     ") has no stage on its other side");
  }
  return action;
}

}  // namespace

v1::RankPlan EncodeRankPlan(const Plan& plan, Rank rank) {
  v1::RankPlan encoded;
  encoded.set_plan_id(plan.id);
  encoded.set_rank(rank.value());
  encoded.set_num_ranks(plan.num_ranks());
  encoded.set_num_stages(plan.num_stages());
  encoded.set_num_microbatches(plan.num_microbatches);
  for (Rank owner : plan.stage_ranks) encoded.add_stage_ranks(owner.value());
  for (const Action& action : plan.ranks[rank.value()]) {
    encoded.add_kinds(static_cast<v1::ActionKind>(action.kind));
    encoded.add_stages(action.stage.value());
    encoded.add_microbatches(action.microbatch.value());
  }
  return encoded;
}

absl::StatusOr<RankPlan> DecodeRankPlan(const v1::RankPlan& plan) {
  PIPESTAGE_RETURN_IF_ERROR(CheckHeader(plan));
  RankPlan decoded;
  decoded.id = plan.plan_id();
  decoded.rank = Rank(plan.rank());
  decoded.num_ranks = plan.num_ranks();
  decoded.num_microbatches = plan.num_microbatches();
  for (int owner : plan.stage_ranks()) {
    decoded.stage_ranks.push_back(Rank(owner));
  }
  decoded.actions.reserve(plan.kinds_size());
  for (int i = 0; i < plan.kinds_size(); ++i) {
    PIPESTAGE_ASSIGN_OR_RETURN(Action action, DecodeAction(plan, i));
    decoded.actions.push_back(action);
  }
  return decoded;
}

}  // namespace pipestage
