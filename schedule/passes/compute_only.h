#ifndef PIPESTAGE_SCHEDULE_PASSES_COMPUTE_ONLY_H_
#define PIPESTAGE_SCHEDULE_PASSES_COMPUTE_ONLY_H_

#include "schedule/action.h"

namespace pipestage {

// The compute of each row, in the row's order: undoes a lowering.
ActionRows ComputeOnly(ActionRows rows);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_PASSES_COMPUTE_ONLY_H_
