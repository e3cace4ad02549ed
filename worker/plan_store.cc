#include "worker/plan_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"

namespace pipestage {

void PlanStore::Install(const v1::RankPlan& plan) {
  absl::StatusOr<RankPlan> decoded = DecodeRankPlan(plan);
  Entry entry =
      decoded.ok()
          ? Entry(std::make_shared<const RankPlan>(*std::move(decoded)))
          : Entry(WithReason(decoded.status(), reason::kPlanInvalid));
  absl::MutexLock lock(&mu_);
  plans_.insert_or_assign(plan.plan_id(), std::move(entry));
}

void PlanStore::Forget(absl::string_view id) {
  absl::MutexLock lock(&mu_);
  plans_.erase(id);
}

void PlanStore::Clear() {
  absl::MutexLock lock(&mu_);
  plans_.clear();
}

absl::StatusOr<std::shared_ptr<const RankPlan>> PlanStore::Find(
    absl::string_view id) const {
  absl::MutexLock lock(&mu_);
  const auto it = plans_.find(id);
  if (it != plans_.end()) return it->second;
  return WithReason(absl::FailedPreconditionError(
                        absl::StrCat("plan ", id, " is not installed")),
                    reason::kPlanInvalid);
}

}  // namespace pipestage
