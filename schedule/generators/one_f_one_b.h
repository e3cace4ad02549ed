#ifndef PIPESTAGE_SCHEDULE_GENERATORS_ONE_F_ONE_B_H_
#define PIPESTAGE_SCHEDULE_GENERATORS_ONE_F_ONE_B_H_

#include "schedule/generators/schedule_shape.h"

namespace pipestage {

// 1F1B, in the order PyTorch executes (its published table numbers the forwards
// of the last rank from 1): min(M, P - r) forwards, then backward and forward
// in turn.
//
// PyTorch has it for one stage a rank and M >= P. With more stages it is
// Interleaved1F1B, which bounds what is in flight in the same way.
ActionRows GenerateOneFOneB(const ScheduleShape& shape);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_GENERATORS_ONE_F_ONE_B_H_
