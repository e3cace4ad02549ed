#ifndef PIPESTAGE_SCHEDULE_ACTION_H_
#define PIPESTAGE_SCHEDULE_ACTION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"

namespace pipestage {

// One kind of thing a rank does. Values are those of v1::ActionKind.
enum class ActionKind : int {
  kForward = 1,                  // F
  kBackward = 2,                 // B: gradients of inputs and weights
  kBackwardInput = 3,            // I
  kBackwardWeight = 4,           // W
  kSendForward = 5,              // SEND_F
  kRecvForward = 6,              // RECV_F
  kSendBackward = 7,             // SEND_B
  kRecvBackward = 8,             // RECV_B
  kUnshard = 9,                  // UNSHARD
  kReshard = 10,                 // RESHARD
  kReduceGrad = 11,              // REDUCE_GRAD
  kOverlapForwardBackward = 12,  // OVERLAP_F_B
};

// "F", "SEND_F" ...: PyTorch's spelling.
absl::string_view ActionKindName(ActionKind kind);
// Whether the kind acts on one microbatch (all but UNSHARD, RESHARD,
// REDUCE_GRAD).
bool HasMicrobatch(ActionKind kind);
// F, B, I, W, OVERLAP_F_B: what a schedule orders. The rest is put in by
// passes.
bool IsCompute(ActionKind kind);

// One thing one rank does: `kind` on `stage` for `microbatch`. A communication
// carries the acting stage: 0SEND_F3 sends stage 0's output for microbatch 3 to
// stage 1, whose receive is 1RECV_F3.
//
// OVERLAP_F_B is two in one: the forward of `stage` for `microbatch`, and the
// full backward of `backward_stage` for `backward_microbatch`.
struct Action {
  StageIndex stage;
  ActionKind kind = ActionKind::kForward;
  MicrobatchIndex microbatch = MicrobatchIndex(-1);  // -1: the kind has none
  // -1 for all kinds but OVERLAP_F_B.
  StageIndex backward_stage = StageIndex(-1);
  MicrobatchIndex backward_microbatch = MicrobatchIndex(-1);

  friend bool operator==(const Action&, const Action&) = default;
};

// Calls `visit` for the action, or for the two that OVERLAP_F_B consists of,
// forward first: it is executed as its parts in order.
template <typename Visit>
void ForEachPart(const Action& action, Visit visit) {
  if (action.kind != ActionKind::kOverlapForwardBackward) return visit(action);
  visit(Action{action.stage, ActionKind::kForward, action.microbatch});
  visit(Action{action.backward_stage, ActionKind::kBackward,
               action.backward_microbatch});
}

// "2F0", "1SEND_F3", "0UNSHARD", "(0F7;7B3)OVERLAP_F_B".
std::string ToString(const Action& action);

// The inverse, strict: the whole text, kinds in upper case, a microbatch where
// the kind has one and none where it has not, and in OVERLAP_F_B one F and one
// B in this order. (PyTorch's parser passes over junk at the end, and takes any
// kinds within the parentheses.) InvalidArgument says what was expected at
// which column.
absl::StatusOr<Action> ParseAction(absl::string_view text);

// What each rank does, in order; row index = rank.
using ActionRows = std::vector<std::vector<Action>>;

// PyTorch's CSV: one row a rank, one cell an action, rows end with "\n".
std::string ToCsv(const ActionRows& rows);
// InvalidArgument names row and column. Empty cells (bubbles) are passed over.
absl::StatusOr<ActionRows> ParseCsv(absl::string_view csv);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_ACTION_H_
