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
// F, B, I, W: what a schedule orders. The rest is put in by passes.
bool IsCompute(ActionKind kind);

// One thing one rank does: `kind` on `stage` for `microbatch`. A communication
// carries the acting stage: 0SEND_F3 sends stage 0's output for microbatch 3 to
// stage 1, whose receive is 1RECV_F3.
struct Action {
  StageIndex stage;
  ActionKind kind = ActionKind::kForward;
  MicrobatchIndex microbatch = MicrobatchIndex(-1);  // -1: the kind has none

  friend bool operator==(const Action&, const Action&) = default;
};

// "2F0", "1SEND_F3", "0UNSHARD".
std::string ToString(const Action& action);

// The inverse, strict: the whole text, kinds in upper case, a microbatch where
// the kind has one and none where it has not. InvalidArgument says what was
// expected at which column.
absl::StatusOr<Action> ParseAction(absl::string_view text);

// What each rank does, in order; row index = rank.
using ActionRows = std::vector<std::vector<Action>>;

// PyTorch's CSV: one row a rank, one cell an action, rows end with "\n".
std::string ToCsv(const ActionRows& rows);
// InvalidArgument names row and column. Empty cells (bubbles) are passed over.
absl::StatusOr<ActionRows> ParseCsv(absl::string_view csv);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_ACTION_H_
