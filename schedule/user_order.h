#ifndef PIPESTAGE_SCHEDULE_USER_ORDER_H_
#define PIPESTAGE_SCHEDULE_USER_ORDER_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "schedule/action.h"
#include "schedule/generators/schedule_shape.h"
#include "schedule/plan.h"

namespace pipestage {

// Rows that a person wrote, or another tool: compute alone, or with messages.

// Whether any row sends or receives.
bool HasMessages(const ActionRows& rows);

// The owner of each stage: the rank in whose row most of its actions are, the
// first of those that have equally many.
//
// InvalidArgument if there are not num_ranks rows, or a rank then owns another
// number of stages than stages_per_rank.
absl::StatusOr<std::vector<Rank>> InferStageRanks(const ActionRows& rows,
                                                  const ScheduleShape& shape);

// Takes the rows of `plan`, as they were given, to what ranks execute, and
// checks them with the verifier's rules on the way (verifier.h). Rows that hold
// messages stay as they are. Of others the compute is lowered for the plan's
// mode, so that an order that waits for itself is refused too.
//
// InvalidArgument naming the first wrong action, or what each rank waits for.
absl::Status CompleteUserOrder(Plan& plan, bool sharded = false,
                               bool merge_backward = false);

// The same of rows alone, of which nothing is kept.
absl::Status CheckUserOrder(const ActionRows& rows, const ScheduleShape& shape,
                            PlanMode mode);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_USER_ORDER_H_
