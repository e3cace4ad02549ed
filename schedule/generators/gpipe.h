#ifndef PIPESTAGE_SCHEDULE_GENERATORS_GPIPE_H_
#define PIPESTAGE_SCHEDULE_GENERATORS_GPIPE_H_

#include "schedule/generators/schedule_shape.h"

namespace pipestage {

// GPipe: every forward, then every backward, microbatches ascending.
//
// PyTorch has it for one stage a rank. With more, a rank goes through its
// stages one after the other, upwards for forwards and downwards for backwards.
ActionRows GenerateGPipe(const ScheduleShape& shape);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_GENERATORS_GPIPE_H_
