#include "schedule/generators/interleaved_zero_bubble.h"

#include "schedule/generators/interleaved_order.h"

namespace pipestage {
namespace {

Action WeightOf(Action input_gradient) {
  input_gradient.kind = ActionKind::kBackwardWeight;
  return input_gradient;
}

}  // namespace

ActionRows GenerateInterleavedZeroBubble(const ScheduleShape& shape) {
  ActionRows rows(shape.num_ranks);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    const InterleavedOrder order = MakeInterleavedOrder(
        shape, rank, /*lead=*/1, ActionKind::kBackwardInput);
    const int num_forwards = static_cast<int>(order.forwards.size());
    std::vector<Action>& row = rows[rank];
    int next_weight = 0;
    for (int op = 0; op < num_forwards + order.warm_up; ++op) {
      if (op < num_forwards) row.push_back(order.forwards[op]);
      if (op < order.warm_up) continue;
      row.push_back(order.backwards[op - order.warm_up]);
      if (op - order.warm_up >= rank) {
        row.push_back(WeightOf(order.backwards[next_weight++]));
      }
    }
    while (next_weight < num_forwards) {
      row.push_back(WeightOf(order.backwards[next_weight++]));
    }
  }
  return rows;
}

}  // namespace pipestage
