#include "schedule/generators/depth_first.h"

#include <cstddef>
#include <cstdint>

namespace pipestage {

ActionRows GenerateDepthFirst(const std::vector<Rank>& stage_ranks,
                              int num_ranks, int num_microbatches) {
  const int num_stages = static_cast<int>(stage_ranks.size());
  std::vector<std::vector<int>> stages_of(num_ranks);  // latest first
  for (int s = num_stages; s-- > 0;) {
    stages_of[stage_ranks[s].value()].push_back(s);
  }
  // Of each stage: how many microbatches have come to it, and have left it.
  std::vector<int> arrived(num_stages, 0);
  std::vector<int> done(num_stages, 0);
  arrived[0] = num_microbatches;

  ActionRows rows(num_ranks);
  while (done[num_stages - 1] < num_microbatches) {
    std::vector<int> ran;  // in this unit of time
    for (int rank = 0; rank < num_ranks; ++rank) {
      for (const int stage : stages_of[rank]) {
        if (done[stage] == arrived[stage]) continue;
        rows[rank].push_back({StageIndex(stage), ActionKind::kForward,
                              MicrobatchIndex(done[stage])});
        ran.push_back(stage);
        break;
      }
    }
    for (const int stage : ran) {
      ++done[stage];
      if (stage + 1 < num_stages) ++arrived[stage + 1];
    }
  }
  return rows;
}

}  // namespace pipestage
