#include "schedule/generators/interleaved_order.h"

#include <algorithm>

namespace pipestage {
namespace {

// Consecutive microbatches that go through all stages of a rank before the
// next.
struct Round {
  int first = 0;
  int size = 0;
};

std::vector<Round> SplitIntoRounds(const ScheduleShape& shape) {
  const int count = std::max(1, shape.num_microbatches / shape.num_ranks);
  std::vector<Round> rounds;
  int first = 0;
  for (int i = 0; i < count; ++i) {
    const int size = shape.num_microbatches / count +
                     (i < shape.num_microbatches % count ? 1 : 0);
    rounds.push_back({first, size});
    first += size;
  }
  return rounds;
}

}  // namespace

InterleavedOrder MakeInterleavedOrder(const ScheduleShape& shape, int rank,
                                      int lead, ActionKind backward) {
  InterleavedOrder order;
  const std::vector<Round> rounds = SplitIntoRounds(shape);
  const int last = shape.stages_per_rank - 1;
  for (const Round& round : rounds) {
    for (int i = 0; i <= last; ++i) {
      for (int m = round.first; m < round.first + round.size; ++m) {
        order.forwards.push_back(ForwardOf(shape.Stage(rank, i), m));
        order.backwards.push_back({StageIndex(shape.Stage(rank, last - i)),
                                   backward, MicrobatchIndex(m)});
      }
    }
  }
  order.warm_up =
      std::min(last * rounds.front().size + lead * (shape.num_ranks - 1 - rank),
               static_cast<int>(order.forwards.size()));
  return order;
}

}  // namespace pipestage
