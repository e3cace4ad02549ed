#include "coordinator/plan_cache.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

size_t CountActions(const Plan& plan) {
  size_t count = 0;
  for (const auto& row : plan.ranks) count += row.size();
  return count;
}

}  // namespace

absl::StatusOr<PlanCache::Found> PlanCache::GetOrCompile(
    const PlanRequest& request) {
  // Schedules are named in any case; the numbers are what they are.
  const Key key(static_cast<int>(request.mode),
                absl::AsciiStrToLower(request.schedule), request.num_ranks,
                request.stages_per_rank, request.num_microbatches,
                request.placement ? static_cast<int>(*request.placement) : -1);
  if (auto plan = Lookup(key)) return Found{std::move(plan), true};
  PIPESTAGE_ASSIGN_OR_RETURN(auto plan, CompilePlan(request));
  Insert(key, plan);
  return Found{std::move(plan), false};
}

std::shared_ptr<const Plan> PlanCache::Lookup(const Key& key) {
  absl::MutexLock lock(&mu_);
  const auto found = index_.find(key);
  if (found == index_.end()) {
    ++misses_;
    return nullptr;
  }
  ++hits_;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->plan;
}

void PlanCache::Insert(const Key& key, std::shared_ptr<const Plan> plan) {
  const size_t num_actions = CountActions(*plan);
  absl::MutexLock lock(&mu_);
  if (index_.count(key) > 0) return;
  entries_.push_front({key, std::move(plan), num_actions});
  index_[key] = entries_.begin();
  num_actions_ += num_actions;
  Evict();
}

void PlanCache::Evict() {
  while (entries_.size() > 1 && (entries_.size() > options_.max_plans ||
                                 num_actions_ > options_.max_actions)) {
    num_actions_ -= entries_.back().num_actions;
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

PlanCache::Counts PlanCache::counts() const {
  absl::MutexLock lock(&mu_);
  return {hits_, misses_, static_cast<int64_t>(entries_.size())};
}

}  // namespace pipestage
