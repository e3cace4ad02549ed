#ifndef PIPESTAGE_SCHEDULE_ACTION_RULES_H_
#define PIPESTAGE_SCHEDULE_ACTION_RULES_H_

#include "absl/status/status.h"
#include "schedule/plan.h"

namespace pipestage {

// Whether rows are to hold the messages between ranks.
enum class RuleSet { kWithMessages, kComputeOnly };

// Walks every row of `plan` in its order and checks each action against what
// its rank has and has done before: ranges, owners, inputs, doing things twice,
// and at the end that nothing is missing. What ranks do to each other is
// checked by CheckMessages. The plan's rows and owners must fit each other
// (VerifyPlan).
//
// With kComputeOnly a row may not hold sends and receives, and data from other
// ranks is taken to be there.
//
// Errors: Internal, reason PLAN_INVALID, naming the first wrong action.
absl::Status CheckActions(const Plan& plan,
                          RuleSet rules = RuleSet::kWithMessages);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_ACTION_RULES_H_
