#ifndef PIPESTAGE_SCHEDULE_PASSES_ADD_REDUCE_GRAD_H_
#define PIPESTAGE_SCHEDULE_PASSES_ADD_REDUCE_GRAD_H_

#include "schedule/action.h"

namespace pipestage {

// Puts a REDUCE_GRAD right after the action with which all `num_microbatches`
// weight gradients of a stage are there: its last B or W. After an OVERLAP_F_B
// that ends a stage comes that stage's.
ActionRows AddReduceGrad(const ActionRows& rows, int num_microbatches);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_PASSES_ADD_REDUCE_GRAD_H_
