#include "schedule/generators/one_f_one_b.h"

#include <algorithm>

#include "schedule/generators/interleaved_1f1b.h"

namespace pipestage {

ActionRows GenerateOneFOneB(const ScheduleShape& shape) {
  if (shape.stages_per_rank > 1) return GenerateInterleaved1F1B(shape);
  ActionRows rows(shape.num_ranks);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    const int warm_up =
        std::min(shape.num_microbatches, shape.num_ranks - rank);
    for (int m = 0; m < warm_up; ++m) rows[rank].push_back(ForwardOf(rank, m));
    for (int m = 0; m < shape.num_microbatches; ++m) {
      rows[rank].push_back(BackwardOf(rank, m));
      if (warm_up + m < shape.num_microbatches) {
        rows[rank].push_back(ForwardOf(rank, warm_up + m));
      }
    }
  }
  return rows;
}

}  // namespace pipestage
