#ifndef PIPESTAGE_COORDINATOR_DISPATCHER_H_
#define PIPESTAGE_COORDINATOR_DISPATCHER_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/ids.h"
#include "coordinator/eval_call.h"
#include "coordinator/first_ids.h"
#include "coordinator/pipeline.h"
#include "proto/worker_link.pb.h"

namespace pipestage {

// Sends calls to the workers, all in one order, and what comes back to the
// calls.
//
// A call is one Run a worker, with its first feeds where they are small, and a
// FeedSource for the rest. A plan is installed once an attachment.
//
// Thread-safe.
class Dispatcher {
 public:
  struct Options {
    // Feeds of a rank that ride on its Run, in bytes.
    size_t riding_bytes = 64 << 10;
    // Plans that a worker is asked to keep: more than calls that can run at
    // once.
    size_t max_installed_plans = 1024;
    Epoch epoch;  // whose call ids are unlike those of others
  };

  // `pipeline` is not owned and outlives the dispatcher.
  Dispatcher(Options options, Pipeline* pipeline)
      : options_(options),
        pipeline_(pipeline),
        last_call_(IdBeforeFirst(options.epoch)) {}

  // Sends the call to the workers of `view`. From here on the call is the
  // dispatcher's, which ends it if the generation has ended meanwhile; unless
  // this returns an error: then nothing has happened to it.
  //
  // Errors: those of CheckReady.
  absl::Status Dispatch(const std::shared_ptr<EvalCall>& call,
                        const PipelineView& view);

  // Ends a dispatched call early.
  void Cancel(const std::shared_ptr<EvalCall>& call, const absl::Status& why);

  void CancelAll(const absl::Status& why) ABSL_LOCKS_EXCLUDED(calls_mu_);

  // From the worker links (see WorkerEvents).
  void OnCallMessage(const Attachment& from, v1::WorkerMessage& message);
  void OnViewChanged(const PipelineView& view);
  // Ends the generation of calls that the worker ought to know and does not.
  void OnIdle(const Attachment& from, absl::Time since)
      ABSL_LOCKS_EXCLUDED(calls_mu_);

  // Messages of workers that were ignored: of calls that are over, of workers
  // that do not take part, or repeated.
  int64_t num_stale() const { return num_stale_; }
  // Calls that some worker has not finished.
  int num_calls() const ABSL_LOCKS_EXCLUDED(calls_mu_);

 private:
  // The plans an attachment has, most recently used first.
  struct Installed {
    std::list<std::string> plans;
    absl::flat_hash_map<std::string, std::list<std::string>::iterator> index;
  };
  struct RankMessages {
    v1::CoordinatorMessage run;
    std::unique_ptr<FeedSource> feeds;  // null when all ride along
  };

  absl::StatusOr<std::vector<RankMessages>> MakeMessages(
      const std::shared_ptr<EvalCall>& call) const;
  void SendAll(const EvalCall& call, const PipelineView& view,
               std::vector<RankMessages>& messages)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(order_mu_);
  void Install(const Plan& plan, const Attachment& worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(order_mu_);
  void ForgetGoneWorkers(const PipelineView& view)
      ABSL_LOCKS_EXCLUDED(order_mu_);
  void Settle(const std::shared_ptr<EvalCall>& call, EvalCall::Outcome outcome);
  std::shared_ptr<EvalCall> Find(CallId id) const
      ABSL_LOCKS_EXCLUDED(calls_mu_);

  const Options options_;
  Pipeline* const pipeline_;
  std::atomic<int64_t> num_stale_ = 0;

  // Held while the Runs of a call are sent: all workers see one order.
  absl::Mutex order_mu_ ABSL_ACQUIRED_BEFORE(calls_mu_);
  CallId last_call_ ABSL_GUARDED_BY(order_mu_);
  absl::flat_hash_map<AttachmentId, Installed> installed_
      ABSL_GUARDED_BY(order_mu_);

  mutable absl::Mutex calls_mu_;
  absl::flat_hash_map<CallId, std::shared_ptr<EvalCall>> calls_
      ABSL_GUARDED_BY(calls_mu_);
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_DISPATCHER_H_
