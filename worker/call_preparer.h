#ifndef PIPESTAGE_WORKER_CALL_PREPARER_H_
#define PIPESTAGE_WORKER_CALL_PREPARER_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/worker_link.pb.h"
#include "worker/call_inbox.h"
#include "worker/model_store.h"
#include "worker/plan_store.h"
#include "worker/prepared_call.h"
#include "worker/prepared_plan.h"

namespace pipestage {

// Makes a Run message ready to be executed: finds plan and model, joins them,
// works out the shapes. Remembers what it has joined, so that a call like the
// one before costs a look-up. One thread.
class CallPreparer {
 public:
  // Neither is owned; both outlive the preparer.
  CallPreparer(const PlanStore* plans, const ModelStore* models)
      : plans_(plans), models_(models) {}

  // Why a run cannot be executed.
  struct Refusal {
    absl::Status error;
    // Every rank refuses the same: the ranks stay in step.
    bool everywhere = false;
  };

  // On success `call` is complete but for its tickets; else the refusal's error
  // is FailedPrecondition or InvalidArgument.
  Refusal Prepare(const v1::Run& run, std::shared_ptr<CallInbox> inbox,
                  PreparedCall& call);

 private:
  // A plan and a model that were joined. Keeps neither alive.
  struct Joined {
    std::weak_ptr<const RankPlan> plan;
    std::weak_ptr<const LoadedModel> model;
    std::shared_ptr<const PreparedPlan> prepared;
    std::shared_ptr<const CallShapes> last_shapes;
  };

  absl::StatusOr<Joined*> Join(const std::shared_ptr<const RankPlan>& plan,
                               const std::shared_ptr<const LoadedModel>& model);

  const PlanStore* const plans_;
  const ModelStore* const models_;
  std::vector<std::unique_ptr<Joined>> joined_;  // most recently used last
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_CALL_PREPARER_H_
