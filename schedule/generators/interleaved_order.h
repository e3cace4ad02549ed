#ifndef PIPESTAGE_SCHEDULE_GENERATORS_INTERLEAVED_ORDER_H_
#define PIPESTAGE_SCHEDULE_GENERATORS_INTERLEAVED_ORDER_H_

#include <vector>

#include "schedule/generators/schedule_shape.h"

namespace pipestage {

// What the interleaved schedules have in common. Microbatches go in
// R = max(1, M div P) rounds; a rank takes a round through each of its stages
// before the next round.
//
// PyTorch refuses an M that R does not divide. Here rounds then differ by one
// microbatch, larger first.
struct InterleavedOrder {
  std::vector<Action> forwards;
  std::vector<Action> backwards;  // of the kind asked for
  int warm_up = 0;                // forwards before the first backward
};

// `lead`: by how many forwards a rank is ahead of the next in the warm-up.
InterleavedOrder MakeInterleavedOrder(const ScheduleShape& shape, int rank,
                                      int lead, ActionKind backward);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_GENERATORS_INTERLEAVED_ORDER_H_
