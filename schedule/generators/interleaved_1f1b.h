#ifndef PIPESTAGE_SCHEDULE_GENERATORS_INTERLEAVED_1F1B_H_
#define PIPESTAGE_SCHEDULE_GENERATORS_INTERLEAVED_1F1B_H_

#include "schedule/generators/schedule_shape.h"

namespace pipestage {

// Interleaved1F1B: the rounds of interleaved_order.h, a forward and a full
// backward in turn after the warm-up. Where PyTorch accepts the numbers, the
// order is its own.
ActionRows GenerateInterleaved1F1B(const ScheduleShape& shape);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_GENERATORS_INTERLEAVED_1F1B_H_
