#ifndef PIPESTAGE_COORDINATOR_PLACEMENT_H_
#define PIPESTAGE_COORDINATOR_PLACEMENT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"

namespace pipestage {

// On which ranks the stages of one model are.
struct Placement {
  int num_ranks = 0;        // P: the ranks [0, P) take part
  int stages_per_rank = 0;  // V
  std::vector<Rank> stage_ranks;

  Rank owner(StageIndex stage) const { return stage_ranks[stage.value()]; }
  // In increasing order.
  std::vector<StageIndex> StagesOf(Rank rank) const;
};

// Places `num_stages` stages, looped, on `requested` of the pipeline's
// `num_workers` ranks; 0 = on the most that hold equally many stages each.
//
// Errors:
//   InvalidArgument: the stages do not divide evenly among `requested` workers.
//   FailedPrecondition (WORKERS_MISSING): the pipeline has fewer ranks.
absl::StatusOr<Placement> PlaceStages(int num_stages, int num_workers,
                                      int requested);

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_PLACEMENT_H_
