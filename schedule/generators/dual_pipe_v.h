#ifndef PIPESTAGE_SCHEDULE_GENERATORS_DUAL_PIPE_V_H_
#define PIPESTAGE_SCHEDULE_GENERATORS_DUAL_PIPE_V_H_

#include "schedule/generators/schedule_shape.h"

namespace pipestage {

// DualPipeV: DeepSeek's DualPipe (arXiv 2412.19437) cut in half, over the V
// placement, two stages a rank: forwards of one leg overlap full backwards of
// the other.
//
// PyTorch refuses fewer than 2P microbatches. Here the order is then that of
// 2P, less what there is not.
//
// The shape's stages_per_rank is 2.
ActionRows GenerateDualPipeV(const ScheduleShape& shape);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_GENERATORS_DUAL_PIPE_V_H_
