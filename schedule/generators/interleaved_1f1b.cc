#include "schedule/generators/interleaved_1f1b.h"

#include "schedule/generators/interleaved_order.h"

namespace pipestage {

ActionRows GenerateInterleaved1F1B(const ScheduleShape& shape) {
  ActionRows rows(shape.num_ranks);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    const InterleavedOrder order =
        MakeInterleavedOrder(shape, rank, /*lead=*/2, ActionKind::kBackward);
    const int num_forwards = static_cast<int>(order.forwards.size());
    for (int op = 0; op < num_forwards + order.warm_up; ++op) {
      if (op < num_forwards) rows[rank].push_back(order.forwards[op]);
      if (op >= order.warm_up) {
        rows[rank].push_back(order.backwards[op - order.warm_up]);
      }
    }
  }
  return rows;
}

}  // namespace pipestage
