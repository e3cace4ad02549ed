#ifndef PIPESTAGE_COORDINATOR_EVAL_CALL_H_
#define PIPESTAGE_COORDINATOR_EVAL_CALL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/admission.h"
#include "coordinator/call_inputs.h"
#include "coordinator/collector.h"
#include "coordinator/eval_setup.h"
#include "coordinator/model_registry.h"
#include "coordinator/pipeline.h"
#include "proto/pipeline_service.pb.h"
#include "schedule/plan.h"

namespace pipestage {

// One Eval from dispatch to the last worker's CallDone: collects its results,
// keeps the first cause of a failure, and says when the client can be answered
// and when its place is free.
//
// A failed call is answered at once; its place is free only when every
// worker has gone through its plan, or the generation has ended.
//
// Thread-safe. Callbacks run without the lock held.
class EvalCall {
 public:
  struct Options {
    EvalSetup setup;
    ModelRegistry::Pin model;
    CallInputs inputs;
    std::shared_ptr<const Plan> plan;
    std::shared_ptr<v1::EvalResponse> reply;
    int64_t max_reply_bytes = 0;
    // Losses as they come, not only with the reply.
    bool report_progress = false;
    std::function<void(const std::vector<v1::MicrobatchLoss>&)> on_losses;
    // Called once, with the reply's status.
    std::function<void(const EvalCall&, const absl::Status&)> on_finished;
    // Held as long as the call, and with it its inputs, lives.
    Admission::Reservation input_reservation;
    Clock* clock = nullptr;  // not owned
  };

  explicit EvalCall(Options options);

  // The place among the running calls that it takes. Set before it is
  // dispatched.
  void SetPlace(Admission::Place place) { place_ = std::move(place); }

  // What an event has brought about.
  struct Outcome {
    bool accepted = true;   // false: stale, or a repetition; ignored
    bool released = false;  // the call is over on all workers
  };

  // Set by the dispatcher before the first event.
  void Begin(CallId id, const PipelineView& view) ABSL_LOCKS_EXCLUDED(mu_);

  // A CallFailed, LossReport, OutputData or CallDone for this call.
  Outcome OnMessage(const Attachment& from, v1::WorkerMessage& message)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The client does not want the answer any more, or gets this instead of it.
  Outcome Cancel(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the call, answered or not, on all workers.
  Outcome EndGeneration(const absl::Status& cause) ABSL_LOCKS_EXCLUDED(mu_);
  // Whether `view` is later than the call's start and cannot finish it any
  // more.
  bool IsEndedBy(const PipelineView& view) const {
    return view.version > view_version_ && !view.Serves(generation_);
  }

  // Whether this worker was sent the call before `time` and has not said
  // CallDone.
  bool IsOwedBy(const Attachment& worker, absl::Time time)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Gives the place and the model back. Call once, when an event has released
  // the call. Its bytes stay reserved as long as it lives: feeds may still
  // refer to them.
  void Release();

  // Whether feeds are still of use. No lock is taken.
  bool wants_feeds() const { return !over_; }

  const LoadedModel& model() const { return *options_.model; }
  const CallInputs& inputs() const { return options_.inputs; }
  const EvalSetup& setup() const { return options_.setup; }
  const Plan& plan() const { return *options_.plan; }
  bool report_progress() const { return options_.report_progress; }
  CallId id() const { return id_; }
  Generation generation() const { return generation_; }

 private:
  // What is to be done once the lock is released.
  struct After {
    Outcome outcome;
    std::optional<absl::Status> finished;
    std::vector<v1::MicrobatchLoss> losses;
    bool cancel_workers = false;
  };

  int RankOf(const Attachment& from) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnFailed(const Attachment& from, const v1::CallFailed& failed,
                After& after) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnLosses(const Attachment& from, const v1::LossReport& report,
                After& after) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnOutput(const Attachment& from, v1::OutputData& data, After& after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnDone(const Attachment& from, int rank, v1::CallDone& done,
              After& after) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(absl::Status cause, After& after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Succeed(After& after) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FillTimings() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddTimeline(const Attachment& from, const v1::CallDone& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool answered() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !collector_.has_value();
  }
  // Calls back and sends what `after` says.
  Outcome Act(After after) ABSL_LOCKS_EXCLUDED(mu_);

  Options options_;
  Admission::Place place_;
  CallId id_;
  Generation generation_;
  int64_t view_version_ = 0;
  std::vector<std::shared_ptr<const Attachment>> workers_;  // by rank
  std::atomic<bool> over_ = false;

  absl::Mutex mu_;
  // Unset once the client is answered.
  std::optional<Collector> collector_ ABSL_GUARDED_BY(mu_);
  std::vector<bool> done_ ABSL_GUARDED_BY(mu_);  // by rank
  int num_done_ ABSL_GUARDED_BY(mu_) = 0;
  bool all_complete_ ABSL_GUARDED_BY(mu_) = true;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
  double busy_s_ ABSL_GUARDED_BY(mu_) = 0;
  double longest_wall_s_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time dispatched_at_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_EVAL_CALL_H_
