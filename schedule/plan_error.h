#ifndef PIPESTAGE_SCHEDULE_PLAN_ERROR_H_
#define PIPESTAGE_SCHEDULE_PLAN_ERROR_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "schedule/plan.h"

namespace pipestage {

// What the verifier says of a plan that must not be run.
template <typename... Parts>
absl::Status WrongPlan(const Parts&... parts) {
  return WithReason(
      absl::InternalError(absl::StrCat("the plan is wrong: ", parts...)),
      reason::kPlanInvalid);
}

// The same of one action: the `i`th of `rank`'s row.
template <typename... Parts>
absl::Status WrongAction(const Plan& plan, int rank, size_t i,
                         const Parts&... parts) {
  return WrongPlan("rank ", rank, ", action ", i, " (",
                   ToString(plan.ranks[rank][i]), "): ", parts...);
}

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_PLAN_ERROR_H_
