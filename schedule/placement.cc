#include "schedule/placement.h"

namespace pipestage {

std::vector<Rank> LoopPlacement(int num_ranks, int stages_per_rank) {
  std::vector<Rank> owners;
  owners.reserve(num_ranks * stages_per_rank);
  for (int stage = 0; stage < num_ranks * stages_per_rank; ++stage) {
    owners.push_back(Rank(stage % num_ranks));
  }
  return owners;
}

}  // namespace pipestage
