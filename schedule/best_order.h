#ifndef PIPESTAGE_SCHEDULE_BEST_ORDER_H_
#define PIPESTAGE_SCHEDULE_BEST_ORDER_H_

#include "absl/status/statusor.h"
#include "schedule/action.h"
#include "schedule/generators/schedule_shape.h"
#include "schedule/placement.h"

namespace pipestage {

// The forwards with which an Eval ends soonest on stages placed so, all of them
// taking the same time: of the forward orders of all schedules that take this
// shape, and of the depth-first order, the one with the least makespan; of
// those, the one with the least peak of activations.
absl::StatusOr<ActionRows> BestForwardOrder(StagePlacement placement,
                                            const ScheduleShape& shape);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_BEST_ORDER_H_
