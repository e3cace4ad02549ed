#ifndef PIPESTAGE_WORKER_PLAN_STORE_H_
#define PIPESTAGE_WORKER_PLAN_STORE_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "proto/plan.pb.h"
#include "schedule/plan.h"

namespace pipestage {

// The plans the coordinator has installed in this attachment, by id.
// Thread-safe.
class PlanStore {
 public:
  // A plan that does not decode is remembered as its error, for the runs that
  // name it.
  void Install(const v1::RankPlan& plan);
  void Forget(absl::string_view id);
  void Clear();

  // FailedPrecondition (PLAN_INVALID) if it is not installed, or why it did not
  // decode.
  absl::StatusOr<std::shared_ptr<const RankPlan>> Find(
      absl::string_view id) const;

 private:
  using Entry = absl::StatusOr<std::shared_ptr<const RankPlan>>;

  mutable absl::Mutex mu_;
  absl::flat_hash_map<std::string, Entry> plans_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_PLAN_STORE_H_
