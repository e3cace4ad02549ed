#ifndef PIPESTAGE_SCHEDULE_PLACEMENT_H_
#define PIPESTAGE_SCHEDULE_PLACEMENT_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "base/ids.h"

namespace pipestage {

// How the stages of a model lie on the ranks.
enum class StagePlacement { kLoop, kV };

// "loop", "v".
absl::string_view PlacementName(StagePlacement placement);

// The owner of each of P * V stages.
std::vector<Rank> PlaceStages(StagePlacement placement, int num_ranks,
                              int stages_per_rank);

// The owner of each stage under looped placement: stage s on rank s mod P, so
// that rank r owns r, r + P, r + 2P ...
std::vector<Rank> LoopPlacement(int num_ranks, int stages_per_rank);

// The same as a V, and back up, and down again: stages go down the ranks and up
// again, two neighbours on the rank where they turn. With V = 2, rank r owns r
// and 2P - 1 - r, and rank 0 the first stage and the last.
std::vector<Rank> VPlacement(int num_ranks, int stages_per_rank);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_PLACEMENT_H_
