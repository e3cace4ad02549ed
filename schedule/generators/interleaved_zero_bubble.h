#ifndef PIPESTAGE_SCHEDULE_GENERATORS_INTERLEAVED_ZERO_BUBBLE_H_
#define PIPESTAGE_SCHEDULE_GENERATORS_INTERLEAVED_ZERO_BUBBLE_H_

#include "schedule/generators/schedule_shape.h"

namespace pipestage {

// InterleavedZeroBubble (ZB1P, arXiv 2401.10241, over the rounds of
// interleaved_order.h): backwards are split, and the gradients of weights fill
// what would be bubbles: on rank r they come r input gradients late, in their
// order.
ActionRows GenerateInterleavedZeroBubble(const ScheduleShape& shape);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_GENERATORS_INTERLEAVED_ZERO_BUBBLE_H_
