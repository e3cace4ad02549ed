#ifndef PIPESTAGE_SCHEDULE_VERIFIER_H_
#define PIPESTAGE_SCHEDULE_VERIFIER_H_

#include "absl/status/status.h"
#include "schedule/plan.h"

namespace pipestage {

// Proves that executing an Eval plan literally, each rank in order and one
// blocking operation at a time, computes every stage for every microbatch once,
// from the right data, and ends:
//
// * every action is a forward or moves one, is in range, and is in its owner's
// row;
// * each (stage, microbatch) goes forward exactly once, after its input is
// there;
// * each activation that changes rank is sent once and received once, none
// else;
// * for each ordered pair of ranks, the k-th receive is the k-th send;
// * it finishes even if every send blocks until its receive is reached.
//
// Errors: Internal, reason PLAN_INVALID, naming the first wrong action or, for
// a deadlock, what each rank waits for. Unimplemented for a Step plan.
absl::Status VerifyPlan(const Plan& plan);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_VERIFIER_H_
