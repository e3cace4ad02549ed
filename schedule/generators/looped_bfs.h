#ifndef PIPESTAGE_SCHEDULE_GENERATORS_LOOPED_BFS_H_
#define PIPESTAGE_SCHEDULE_GENERATORS_LOOPED_BFS_H_

#include "schedule/generators/schedule_shape.h"

namespace pipestage {

// LoopedBFS: all microbatches through a rank's first stage, then through its
// next
// ...; backwards from its last stage to its first, microbatches descending.
ActionRows GenerateLoopedBfs(const ScheduleShape& shape);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_GENERATORS_LOOPED_BFS_H_
