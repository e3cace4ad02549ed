#ifndef PIPESTAGE_SCHEDULE_PASSES_MERGE_BACKWARD_H_
#define PIPESTAGE_SCHEDULE_PASSES_MERGE_BACKWARD_H_

#include "schedule/action.h"

namespace pipestage {

// Makes one B of each I that is directly followed by the W of the same stage
// and microbatch: nothing is gained by splitting what is run at once.
ActionRows MergeBackward(const ActionRows& rows);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_PASSES_MERGE_BACKWARD_H_
