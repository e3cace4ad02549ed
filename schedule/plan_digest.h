#ifndef PIPESTAGE_SCHEDULE_PLAN_DIGEST_H_
#define PIPESTAGE_SCHEDULE_PLAN_DIGEST_H_

#include <string>

#include "schedule/plan.h"

namespace pipestage {

// A digest of everything in `plan` but its id, 32 hex digits: the same on every
// machine and in every version, so that equal plans are recognised anywhere.
std::string PlanDigest(const Plan& plan);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_PLAN_DIGEST_H_
