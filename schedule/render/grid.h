#ifndef PIPESTAGE_SCHEDULE_RENDER_GRID_H_
#define PIPESTAGE_SCHEDULE_RENDER_GRID_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedule/action.h"
#include "schedule/plan.h"

namespace pipestage {

inline constexpr int kGridColumns = 96;

// The compute of a plan as text: a line for each rank, a column for each unit
// of time ("0F1": stage 0, forward, microbatch 1), F, I and W taking one and B
// two. Where that is wider than `max_columns`, a line for each stage and one
// character a unit: the microbatch (0-9, a-z, from 0 again; in a Step forwards
// have digits and backwards letters); what still does not fit is left out and
// said so.
//
// Errors: as Simulate.
absl::StatusOr<std::string> DrawPlan(const Plan& plan,
                                     int max_columns = kGridColumns);

struct TimedAction {
  Action action;
  double start_s = 0;
  double end_s = 0;
};

// What a rank ran, by the clock.
struct RankTimeline {
  int rank = 0;
  std::vector<TimedAction> actions;
};

// The compute that was measured, a line for each stage: each column is the same
// span of time and shows the microbatch that took most of it, or "." if its
// stage computed for less than half of it. Times that are not finite are left
// out.
std::string DrawTimeline(absl::Span<const RankTimeline> ranks,
                         int max_columns = kGridColumns);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_RENDER_GRID_H_
