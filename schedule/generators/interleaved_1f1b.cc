#include "schedule/generators/interleaved_1f1b.h"

#include <algorithm>
#include <cstddef>
#include <vector>

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

std::vector<Action> Forwards(const ScheduleShape& shape,
                             const std::vector<Round>& rounds, int rank) {
  std::vector<Action> actions;
  for (const Round& round : rounds) {
    for (int i = 0; i < shape.stages_per_rank; ++i) {
      for (int m = 0; m < round.size; ++m) {
        actions.push_back(ForwardOf(shape.Stage(rank, i), round.first + m));
      }
    }
  }
  return actions;
}

std::vector<Action> Backwards(const ScheduleShape& shape,
                              const std::vector<Round>& rounds, int rank) {
  std::vector<Action> actions;
  for (const Round& round : rounds) {
    for (int i = shape.stages_per_rank - 1; i >= 0; --i) {
      for (int m = 0; m < round.size; ++m) {
        actions.push_back(BackwardOf(shape.Stage(rank, i), round.first + m));
      }
    }
  }
  return actions;
}

}  // namespace

ActionRows GenerateInterleaved1F1B(const ScheduleShape& shape) {
  const std::vector<Round> rounds = SplitIntoRounds(shape);
  ActionRows rows(shape.num_ranks);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    const std::vector<Action> forwards = Forwards(shape, rounds, rank);
    const std::vector<Action> backwards = Backwards(shape, rounds, rank);
    const size_t warm_up =
        std::min<size_t>((shape.stages_per_rank - 1) * rounds.front().size +
                             2 * (shape.num_ranks - 1 - rank),
                         forwards.size());
    for (size_t op = 0; op < forwards.size() + warm_up; ++op) {
      if (op < forwards.size()) rows[rank].push_back(forwards[op]);
      if (op >= warm_up) rows[rank].push_back(backwards[op - warm_up]);
    }
  }
  return rows;
}

}  // namespace pipestage
