#ifndef PIPESTAGE_SCHEDULE_PASSES_ADD_SEND_RECV_H_
#define PIPESTAGE_SCHEDULE_PASSES_ADD_SEND_RECV_H_

#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "schedule/action.h"

namespace pipestage {

// Puts in a send and a receive wherever data crosses from one rank to another,
// as PyTorch's default lowering does.
//
// Ranks are swept in ascending order, each advancing by at most one action
// whose data is there. A send follows its compute at once, and its receive goes
// to the end of what the receiver has so far. As both enter the rows at one
// instant of one global sequence, sends and receives of each pair of ranks are
// in the same order, and the rows finish even if every send blocks until it is
// received.
//
// `rows` hold compute actions, and others without a microbatch, which are kept.
// Errors: InvalidArgument naming the action if one is out of range or on a rank
// that does not own its stage, or if the order waits for itself.
absl::StatusOr<ActionRows> AddSendRecv(const ActionRows& rows,
                                       const std::vector<Rank>& stage_ranks,
                                       int num_microbatches);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_PASSES_ADD_SEND_RECV_H_
