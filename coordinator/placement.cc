#include "coordinator/placement.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_info.h"
#include "schedule/placement.h"

namespace pipestage {
namespace {

std::vector<int> Divisors(int number) {
  std::vector<int> divisors;
  for (int d = 1; d <= number; ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

int LargestDivisor(int number, int at_most) {
  int largest = 1;
  for (const int d : Divisors(number)) {
    if (d <= at_most) largest = d;
  }
  return largest;
}

}  // namespace

std::vector<StageIndex> Placement::StagesOf(Rank rank) const {
  std::vector<StageIndex> stages;
  for (size_t s = 0; s < stage_ranks.size(); ++s) {
    if (stage_ranks[s] == rank) {
      stages.push_back(StageIndex(static_cast<int32_t>(s)));
    }
  }
  return stages;
}

absl::StatusOr<Placement> PlaceStages(int num_stages, int num_workers,
                                      int requested) {
  if (requested < 0 || (requested > 0 && num_stages % requested != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(num_stages, " stages do not divide evenly among ",
                     requested, " workers; among ",
                     absl::StrJoin(Divisors(num_stages), ", "), " they do"));
  }
  if (requested > num_workers) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            "the pipeline lacks ", requested - num_workers, " of ", requested,
            " workers: it is configured for ", num_workers)),
        reason::kWorkersMissing,
        {{"expected", absl::StrCat(requested)},
         {"actual", absl::StrCat(num_workers)}});
  }
  Placement placement;
  placement.num_ranks =
      requested > 0 ? requested : LargestDivisor(num_stages, num_workers);
  placement.stages_per_rank = num_stages / placement.num_ranks;
  placement.stage_ranks =
      LoopPlacement(placement.num_ranks, placement.stages_per_rank);
  return placement;
}

}  // namespace pipestage
