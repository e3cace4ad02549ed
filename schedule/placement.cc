#include "schedule/placement.h"

namespace pipestage {

absl::string_view PlacementName(StagePlacement placement) {
  return placement == StagePlacement::kLoop ? "loop" : "v";
}

std::vector<Rank> PlaceStages(StagePlacement placement, int num_ranks,
                              int stages_per_rank) {
  return placement == StagePlacement::kLoop
             ? LoopPlacement(num_ranks, stages_per_rank)
             : VPlacement(num_ranks, stages_per_rank);
}

std::vector<Rank> LoopPlacement(int num_ranks, int stages_per_rank) {
  std::vector<Rank> owners;
  owners.reserve(num_ranks * stages_per_rank);
  for (int stage = 0; stage < num_ranks * stages_per_rank; ++stage) {
    owners.push_back(Rank(stage % num_ranks));
  }
  return owners;
}

std::vector<Rank> VPlacement(int num_ranks, int stages_per_rank) {
  std::vector<Rank> owners;
  owners.reserve(num_ranks * stages_per_rank);
  for (int stage = 0; stage < num_ranks * stages_per_rank; ++stage) {
    const int along = stage % num_ranks;
    const bool goes_up = stage / num_ranks % 2 == 1;
    owners.push_back(Rank(goes_up ? num_ranks - 1 - along : along));
  }
  return owners;
}

}  // namespace pipestage
