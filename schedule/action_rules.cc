#include "schedule/action_rules.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status_macros.h"
#include "schedule/plan_error.h"

namespace pipestage {
namespace {

// What has happened to one stage and microbatch on the stage's rank.
enum Mark : uint8_t {
  kReceivedActivation = 1 << 0,  // the stage's input
  kForwardDone = 1 << 1,
  kSentActivation = 1 << 2,    // the stage's output
  kReceivedGradient = 1 << 3,  // of the stage's output
  kInputGradientDone = 1 << 4,
  kWeightGradientDone = 1 << 5,
  kSentGradient = 1 << 6,  // of the stage's input
};

// A communication: what it moves, and between which stages.
struct Message {
  Mark mark;
  const char* name;
  bool is_send;
  int other_stage;  // relative to the acting stage
  Mark needs;       // before it is sent
};

Message MessageOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kSendForward:
      return {kSentActivation, "SEND_F", true, +1, kForwardDone};
    case ActionKind::kRecvForward:
      return {kReceivedActivation, "RECV_F", false, -1, kForwardDone};
    case ActionKind::kSendBackward:
      return {kSentGradient, "SEND_B", true, -1, kInputGradientDone};
    default:
      return {kReceivedGradient, "RECV_B", false, +1, kInputGradientDone};
  }
}

bool IsMessage(ActionKind kind) {
  return !IsCompute(kind) && HasMicrobatch(kind);
}

class ActionRules {
 public:
  ActionRules(const Plan& plan, RuleSet rules)
      : plan_(plan),
        with_messages_(rules == RuleSet::kWithMessages),
        marks_(static_cast<size_t>(plan.num_stages()) * plan.num_microbatches),
        weight_gradients_(plan.num_stages(), 0),
        is_unsharded_(plan.num_stages(), false),
        is_reduced_(plan.num_stages(), false),
        unshards_(Has(ActionKind::kUnshard)),
        reduces_(is_step() &&
                 (with_messages_ || Has(ActionKind::kReduceGrad))) {}

  absl::Status Check() {
    for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
      for (size_t i = 0; i < plan_.ranks[rank].size(); ++i) {
        PIPESTAGE_RETURN_IF_ERROR(CheckOne(rank, i));
      }
    }
    return CheckNothingIsMissing();
  }

 private:
  struct Place {
    int rank;
    size_t i;
  };

  bool is_step() const { return plan_.mode == PlanMode::kStep; }
  int num_stages() const { return plan_.num_stages(); }
  int Owner(int stage) const { return plan_.stage_ranks[stage].value(); }
  bool Has(ActionKind kind) const {
    return std::any_of(
        plan_.ranks.begin(), plan_.ranks.end(), [&](const auto& row) {
          return std::any_of(row.begin(), row.end(), [&](const Action& action) {
            return action.kind == kind;
          });
        });
  }
  // Whether there is a stage `other` and it is on another rank than `stage`.
  bool Crosses(int stage, int other) const {
    return other >= 0 && other < num_stages() && Owner(stage) != Owner(other);
  }

  uint8_t& Marks(int stage, int microbatch) {
    return marks_[static_cast<size_t>(stage) * plan_.num_microbatches +
                  microbatch];
  }
  bool IsMarked(int stage, int microbatch, Mark mark) {
    return (Marks(stage, microbatch) & mark) != 0;
  }
  // False if it was there already.
  bool SetMark(const Action& action, Mark mark) {
    uint8_t& marks = Marks(action.stage.value(), action.microbatch.value());
    if ((marks & mark) != 0) return false;
    marks |= mark;
    return true;
  }
  bool IsMarked(const Action& action, Mark mark) {
    return IsMarked(action.stage.value(), action.microbatch.value(), mark);
  }

  template <typename... Parts>
  absl::Status Wrong(Place at, const Parts&... parts) const {
    return WrongAction(plan_, at.rank, at.i, parts...);
  }

  absl::Status CheckOne(int rank, size_t i);
  absl::Status CheckRange(Place at, const Action& action) const;
  absl::Status CheckPart(Place at, const Action& action);
  absl::Status CheckForward(Place at, const Action& action);
  absl::Status CheckBackward(Place at, const Action& action);
  absl::Status CheckWeightGradient(Place at, const Action& action);
  absl::Status CheckMessage(Place at, const Action& action);
  absl::Status CheckStageAction(Place at, const Action& action);
  // That what `from_stage` made of it is on the rank: received with `received`,
  // or `made` there.
  absl::Status CheckArrived(Place at, const Action& action, int from_stage,
                            Mark received, Mark made, const char* what);
  absl::Status CheckNothingIsMissing();
  absl::Status CheckStageIsComplete(int stage) const;
  absl::Status CheckCellIsComplete(int stage, int microbatch);

  const Plan& plan_;
  const bool with_messages_;
  std::vector<uint8_t> marks_;  // by stage and microbatch
  // By stage.
  std::vector<int> weight_gradients_;
  std::vector<bool> is_unsharded_;
  std::vector<bool> is_reduced_;
  // A plan that unshards one stage does so with all. A lowered Step reduces all
  // stages, an order of compute all or none.
  const bool unshards_;
  const bool reduces_;
};

absl::Status ActionRules::CheckOne(int rank, size_t i) {
  const Action& action = plan_.ranks[rank][i];
  const Place at{rank, i};
  if (!is_step() && action.kind != ActionKind::kForward &&
      action.kind != ActionKind::kSendForward &&
      action.kind != ActionKind::kRecvForward) {
    return Wrong(at, "an Eval goes forward only");
  }
  if (!with_messages_ && IsMessage(action.kind)) {
    return Wrong(at, "an order of compute holds no messages");
  }
  absl::Status status;
  ForEachPart(action, [&](const Action& part) {
    if (status.ok()) status = CheckRange(at, part);
    if (status.ok()) status = CheckPart(at, part);
  });
  return status;
}

absl::Status ActionRules::CheckRange(Place at, const Action& action) const {
  const int stage = action.stage.value();
  const int microbatch = action.microbatch.value();
  if (stage < 0 || stage >= num_stages()) {
    return Wrong(at, "there are ", num_stages(), " stages");
  }
  if (HasMicrobatch(action.kind) &&
      (microbatch < 0 || microbatch >= plan_.num_microbatches)) {
    return Wrong(at, "there are ", plan_.num_microbatches, " microbatches");
  }
  if (Owner(stage) != at.rank) {
    return Wrong(at, "the stage is on rank ", Owner(stage));
  }
  if (IsCompute(action.kind) && unshards_ && !is_unsharded_[stage]) {
    return Wrong(at, "stage ", stage, " is not unsharded at this point");
  }
  return absl::OkStatus();
}

absl::Status ActionRules::CheckPart(Place at, const Action& action) {
  switch (action.kind) {
    case ActionKind::kForward:
      return CheckForward(at, action);
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return CheckBackward(at, action);
    case ActionKind::kBackwardWeight:
      return CheckWeightGradient(at, action);
    default:
      return IsMessage(action.kind) ? CheckMessage(at, action)
                                    : CheckStageAction(at, action);
  }
}

absl::Status ActionRules::CheckArrived(Place at, const Action& action,
                                       int from_stage, Mark received, Mark made,
                                       const char* what) {
  if (from_stage < 0 || from_stage >= num_stages()) return absl::OkStatus();
  if (Crosses(action.stage.value(), from_stage)) {
    if (!with_messages_ || IsMarked(action, received)) return absl::OkStatus();
    return Wrong(at, "its ", what, " was not received before");
  }
  if (IsMarked(from_stage, action.microbatch.value(), made)) {
    return absl::OkStatus();
  }
  return Wrong(at, "its ", what, " was not computed before");
}

absl::Status ActionRules::CheckForward(Place at, const Action& action) {
  if (!SetMark(action, kForwardDone)) {
    return Wrong(at, "it was computed before");
  }
  return CheckArrived(at, action, action.stage.value() - 1, kReceivedActivation,
                      kForwardDone, "input");
}

absl::Status ActionRules::CheckBackward(Place at, const Action& action) {
  if (!IsMarked(action, kForwardDone)) {
    return Wrong(at, "its forward was not computed before");
  }
  if (!SetMark(action, kInputGradientDone)) {
    return Wrong(at, "its backward was computed before");
  }
  PIPESTAGE_RETURN_IF_ERROR(CheckArrived(at, action, action.stage.value() + 1,
                                         kReceivedGradient, kInputGradientDone,
                                         "gradient"));
  if (action.kind == ActionKind::kBackwardInput) return absl::OkStatus();
  SetMark(action, kWeightGradientDone);
  ++weight_gradients_[action.stage.value()];
  return absl::OkStatus();
}

absl::Status ActionRules::CheckWeightGradient(Place at, const Action& action) {
  if (!IsMarked(action, kInputGradientDone)) {
    return Wrong(at, "its input gradient was not computed before");
  }
  if (!SetMark(action, kWeightGradientDone)) {
    return Wrong(at, "its weight gradient was computed before");
  }
  ++weight_gradients_[action.stage.value()];
  return absl::OkStatus();
}

absl::Status ActionRules::CheckMessage(Place at, const Action& action) {
  const Message message = MessageOf(action.kind);
  const int stage = action.stage.value();
  if (!Crosses(stage, stage + message.other_stage)) {
    return Wrong(at, message.is_send ? "no other rank needs what it sends"
                                     : "no other rank has what it receives");
  }
  if (message.is_send && !IsMarked(action, message.needs)) {
    return Wrong(at, "what it sends was not computed before");
  }
  if (!SetMark(action, message.mark)) {
    return Wrong(at, "it was ", message.is_send ? "sent" : "received",
                 " before");
  }
  return absl::OkStatus();
}

absl::Status ActionRules::CheckStageAction(Place at, const Action& action) {
  const int stage = action.stage.value();
  if (action.kind == ActionKind::kReduceGrad) {
    if (weight_gradients_[stage] < plan_.num_microbatches) {
      return Wrong(at, "of ", plan_.num_microbatches, " weight gradients ",
                   weight_gradients_[stage], " were computed before");
    }
    if (is_reduced_[stage]) return Wrong(at, "it was reduced before");
    is_reduced_[stage] = true;
    return absl::OkStatus();
  }
  const bool unshard = action.kind == ActionKind::kUnshard;
  if (is_unsharded_[stage] == unshard) {
    return Wrong(at, "the stage is ", unshard ? "" : "not ",
                 "unsharded at this point");
  }
  is_unsharded_[stage] = unshard;
  return absl::OkStatus();
}

absl::Status ActionRules::CheckNothingIsMissing() {
  for (int stage = 0; stage < num_stages(); ++stage) {
    for (int m = 0; m < plan_.num_microbatches; ++m) {
      PIPESTAGE_RETURN_IF_ERROR(CheckCellIsComplete(stage, m));
    }
    PIPESTAGE_RETURN_IF_ERROR(CheckStageIsComplete(stage));
  }
  return absl::OkStatus();
}

absl::Status ActionRules::CheckStageIsComplete(int stage) const {
  if (reduces_ && !is_reduced_[stage]) {
    return WrongPlan("rank ", Owner(stage), " lacks ", stage, "REDUCE_GRAD");
  }
  if (is_unsharded_[stage]) {
    return WrongPlan("rank ", Owner(stage), " lacks ", stage,
                     "RESHARD at its end");
  }
  return absl::OkStatus();
}

absl::Status ActionRules::CheckCellIsComplete(int stage, int microbatch) {
  const auto lacks = [&](int where, const char* kind) {
    return WrongPlan("rank ", Owner(where), " lacks ", where, kind, microbatch);
  };
  const auto has = [&](int where, Mark mark) {
    return IsMarked(where, microbatch, mark);
  };
  if (!has(stage, kForwardDone)) return lacks(stage, "F");
  if (is_step() && !has(stage, kInputGradientDone)) return lacks(stage, "B");
  if (is_step() && !has(stage, kWeightGradientDone)) return lacks(stage, "W");
  if (!with_messages_) return absl::OkStatus();
  if (Crosses(stage, stage + 1)) {
    if (!has(stage, kSentActivation)) return lacks(stage, "SEND_F");
    if (!has(stage + 1, kReceivedActivation)) return lacks(stage + 1, "RECV_F");
  }
  if (is_step() && Crosses(stage, stage - 1)) {
    if (!has(stage, kSentGradient)) return lacks(stage, "SEND_B");
    if (!has(stage - 1, kReceivedGradient)) return lacks(stage - 1, "RECV_B");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckActions(const Plan& plan, RuleSet rules) {
  return ActionRules(plan, rules).Check();
}

}  // namespace pipestage
