#ifndef PIPESTAGE_SCHEDULE_PASSES_ADD_UNSHARD_RESHARD_H_
#define PIPESTAGE_SCHEDULE_PASSES_ADD_UNSHARD_RESHARD_H_

#include "schedule/action.h"

namespace pipestage {

// How many stages of a rank PyTorch keeps gathered at a time.
inline constexpr int kMaxUnshardedStages = 3;

// Puts in an UNSHARD before a stage whose parameters are sharded is needed, and
// a RESHARD once others are needed sooner, as PyTorch's lowering does.
//
// Before each action: the stages needed soonest, from this action on, are those
// to be gathered: the first `max_unsharded` of them (one more where an
// OVERLAP_F_B brings two at once). Others are resharded, in ascending order;
// those that are not gathered yet are, in the order in which they are needed.
// All are resharded at the end of the row. Linear in the row's length times the
// stages on the rank.
ActionRows AddUnshardReshard(const ActionRows& rows,
                             int max_unsharded = kMaxUnshardedStages);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_PASSES_ADD_UNSHARD_RESHARD_H_
