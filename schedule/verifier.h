#ifndef PIPESTAGE_SCHEDULE_VERIFIER_H_
#define PIPESTAGE_SCHEDULE_VERIFIER_H_

#include "absl/status/status.h"
#include "schedule/plan.h"

namespace pipestage {

// Proves that executing a plan literally, each rank in order and one blocking
// operation at a time, computes what it should, once, from the right data, and
// ends:
//
// * every action is in range and in its owner's row, and an Eval's is a forward
//   or moves one;
// * each (stage, microbatch) goes forward exactly once, after its input is
// there;
//   in a Step it goes backward exactly once, as B, or as I and later W, after
//   its forward and after the gradient is there;
// * each activation and gradient that changes rank is sent once and received
//   once, none else;
// * a stage's gradients are reduced once, after the last of them, on all stages
//   or on none; a stage computes only while it is unsharded, and is resharded
//   at the end, if the plan unshards at all;
// * for each ordered pair of ranks, the k-th receive is the k-th send;
// * it finishes even if every send blocks until its receive is reached.
//
// Linear in the number of actions.
//
// Errors: Internal, reason PLAN_INVALID, naming the first wrong action or, for
// a deadlock, what each rank waits for.
absl::Status VerifyPlan(const Plan& plan);

// The same of an order to which no messages have been added: data of other
// ranks is taken to be there, so that whether it ends is not told (AddSendRecv
// does).
absl::Status VerifyOrder(const Plan& order);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_VERIFIER_H_
