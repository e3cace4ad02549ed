#ifndef PIPESTAGE_COORDINATOR_PLAN_CACHE_H_
#define PIPESTAGE_COORDINATOR_PLAN_CACHE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "schedule/compiler.h"
#include "schedule/plan.h"

namespace pipestage {

// Compiled plans by what they were made from. A plan depends on no shape, so a
// handful serves for ever; those least recently used go first.
//
// Thread-safe. Compiles outside its lock: two callers that miss at once may
// both compile, and get equal plans.
class PlanCache {
 public:
  struct Options {
    size_t max_plans = 256;
    // Actions of all plans together: what their memory is made of.
    size_t max_actions = 4 << 20;
  };
  struct Found {
    std::shared_ptr<const Plan> plan;
    bool hit = false;
  };
  struct Counts {
    int64_t hits = 0;
    int64_t misses = 0;
    int64_t entries = 0;
  };

  explicit PlanCache(Options options) : options_(options) {}

  // The errors of CompilePlan, which are not cached.
  absl::StatusOr<Found> GetOrCompile(const PlanRequest& request);

  Counts counts() const;

 private:
  // Mode, schedule, P, V, M, placement.
  using Key = std::tuple<int, std::string, int, int, int, int>;
  struct Entry {
    Key key;
    std::shared_ptr<const Plan> plan;
    size_t num_actions;
  };

  std::shared_ptr<const Plan> Lookup(const Key& key);
  void Insert(const Key& key, std::shared_ptr<const Plan> plan);
  void Evict() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  mutable absl::Mutex mu_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mu_);  // most recently used first
  std::map<Key, std::list<Entry>::iterator> index_ ABSL_GUARDED_BY(mu_);
  size_t num_actions_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t hits_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t misses_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_PLAN_CACHE_H_
