#ifndef PIPESTAGE_SCHEDULE_GENERATORS_ZBV_ZERO_BUBBLE_H_
#define PIPESTAGE_SCHEDULE_GENERATORS_ZBV_ZERO_BUBBLE_H_

#include "schedule/generators/schedule_shape.h"

namespace pipestage {

// ZBVZeroBubble (ZB-V, arXiv 2401.10241): V placement, two stages a rank, split
// backwards; no bubble where F, I and W take equally long.
//
// The shape's stages_per_rank is 2.
ActionRows GenerateZbvZeroBubble(const ScheduleShape& shape);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_GENERATORS_ZBV_ZERO_BUBBLE_H_
