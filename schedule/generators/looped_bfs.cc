#include "schedule/generators/looped_bfs.h"

namespace pipestage {

ActionRows GenerateLoopedBfs(const ScheduleShape& shape) {
  const int num_stages = shape.stages_per_rank;
  ActionRows rows(shape.num_ranks);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    for (int i = 0; i < num_stages; ++i) {
      for (int m = 0; m < shape.num_microbatches; ++m) {
        rows[rank].push_back(ForwardOf(shape.Stage(rank, i), m));
      }
    }
    for (int i = num_stages - 1; i >= 0; --i) {
      for (int m = shape.num_microbatches - 1; m >= 0; --m) {
        rows[rank].push_back(BackwardOf(shape.Stage(rank, i), m));
      }
    }
  }
  return rows;
}

}  // namespace pipestage
