#ifndef PIPESTAGE_SCHEDULE_GENERATORS_INTERLEAVED_1F1B_H_
#define PIPESTAGE_SCHEDULE_GENERATORS_INTERLEAVED_1F1B_H_

#include "schedule/generators/schedule_shape.h"

namespace pipestage {

// Interleaved1F1B: microbatches go in R = max(1, M div P) rounds; a rank takes
// a round through each of its stages before the next round.
//
// PyTorch refuses an M that R does not divide. Here rounds then differ by one
// microbatch, larger first; where PyTorch accepts, the order is its own.
ActionRows GenerateInterleaved1F1B(const ScheduleShape& shape);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_GENERATORS_INTERLEAVED_1F1B_H_
