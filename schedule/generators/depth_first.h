#ifndef PIPESTAGE_SCHEDULE_GENERATORS_DEPTH_FIRST_H_
#define PIPESTAGE_SCHEDULE_GENERATORS_DEPTH_FIRST_H_

#include <vector>

#include "base/ids.h"
#include "schedule/action.h"

namespace pipestage {

// Forwards for stages that lie anywhere: in each unit of time each rank runs
// the latest stage for which it has an input, so that what has been begun is
// brought to its end first and little waits in memory.
ActionRows GenerateDepthFirst(const std::vector<Rank>& stage_ranks,
                              int num_ranks, int num_microbatches);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_GENERATORS_DEPTH_FIRST_H_
