#ifndef PIPESTAGE_SCHEDULE_MESSAGE_RULES_H_
#define PIPESTAGE_SCHEDULE_MESSAGE_RULES_H_

#include "absl/status/status.h"
#include "schedule/plan.h"

namespace pipestage {

// Runs the rows against each other with rendezvous: a send waits for its
// receive and a receive for its send, and compute takes no time. Says whether,
// for each pair of ranks, what one sends next is what the other receives next,
// and whether all rows come to their end. Linear in the number of actions.
//
// The plan must have passed CheckActions.
//
// Errors: Internal, reason PLAN_INVALID, naming the first receive that meets a
// send that is not its own, or, for a deadlock, what each rank waits for.
absl::Status CheckMessages(const Plan& plan);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_MESSAGE_RULES_H_
