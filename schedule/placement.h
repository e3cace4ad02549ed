#ifndef PIPESTAGE_SCHEDULE_PLACEMENT_H_
#define PIPESTAGE_SCHEDULE_PLACEMENT_H_

#include <vector>

#include "base/ids.h"

namespace pipestage {

// The owner of each stage under looped placement: stage s on rank s mod P, so
// that rank r owns r, r + P, r + 2P ...
std::vector<Rank> LoopPlacement(int num_ranks, int stages_per_rank);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_PLACEMENT_H_
