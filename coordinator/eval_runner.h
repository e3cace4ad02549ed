#ifndef PIPESTAGE_COORDINATOR_EVAL_RUNNER_H_
#define PIPESTAGE_COORDINATOR_EVAL_RUNNER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/admission.h"
#include "coordinator/call_inputs.h"
#include "coordinator/dispatcher.h"
#include "coordinator/eval_call.h"
#include "coordinator/model_registry.h"
#include "coordinator/pipeline.h"
#include "coordinator/plan_cache.h"
#include "coordinator/timers.h"
#include "proto/pipeline_service.pb.h"

namespace pipestage {

// What a client asked for, without the transport it came by.
struct EvalTask {
  v1::ModelRef model;
  v1::CallOptions options;
  CallInputs inputs;
  // Counts the bytes of the inputs, unless they are part of the reply's memory.
  std::optional<Admission::Reservation> input_reservation;
  absl::Time arrived;
  absl::Time deadline = absl::InfiniteFuture();

  // Where the answer is written. The runner lets go of it before `done` is
  // called.
  std::shared_ptr<v1::EvalResponse> reply;
  // In the same memory as the reply: gets the bytes that the runner reserves
  // for it.
  Admission::Reservation* reservation = nullptr;
  // Of the reply as one message; larger ones are refused before they are
  // computed.
  int64_t max_reply_bytes = INT64_MAX;
  // Losses as microbatches finish. May come in any order, and not at all after
  // `done`; whoever needs all of them looks into the reply.
  std::function<void(const std::vector<v1::MicrobatchLoss>&)> on_losses;
  // Called once, from any thread, possibly before Start() returns.
  std::function<void(const absl::Status&)> done;
};

// Drives an Eval from the request to the reply: model, checks, plan, admission,
// dispatch. What can be refused is refused before the call waits for its turn.
//
// The thread that brings a request dispatches it if there is room, and the
// thread that brings the last CallDone answers it: a call waits for no thread
// of ours.
//
// Thread-safe.
class EvalRunner {
 public:
  struct Options {
    Epoch epoch;
    // Of what a worker can send in one message: parts of outputs must be
    // smaller.
    int64_t max_message_bytes = 64 << 20;
  };
  // Not owned; all outlive the runner.
  struct Dependencies {
    Clock* clock;
    Timers* timers;
    Pipeline* pipeline;
    ModelRegistry* models;
    PlanCache* plans;
    Admission* admission;
    Dispatcher* dispatcher;
  };
  struct Counts {
    int64_t succeeded = 0;
    int64_t failed = 0;
    int64_t open = 0;  // neither yet
  };

  // A call under way. Cancelling one that has been answered does nothing.
  class Handle;

  EvalRunner(Options options, Dependencies dependencies)
      : options_(options), on_(dependencies) {}

  std::shared_ptr<Handle> Start(EvalTask task);
  void Cancel(const std::shared_ptr<Handle>& handle, const absl::Status& why);

  Counts counts() const { return {succeeded_, failed_, open_}; }

 private:
  // Runs the checks and makes the call. Nothing has been sent.
  absl::StatusOr<std::shared_ptr<EvalCall>> Prepare(
      const std::shared_ptr<Handle>& handle);
  absl::Status CheckSizes(const EvalSetup& setup, const LoadedModel& model,
                          int64_t max_reply_bytes) const;
  // The call has its place.
  absl::Status Run(const std::shared_ptr<Handle>& handle,
                   const std::shared_ptr<EvalCall>& call,
                   Admission::Place place);
  void FillRan(const EvalCall& call, Handle& handle) const;
  void Finish(const std::shared_ptr<Handle>& handle,
              const absl::Status& status);

  const Options options_;
  const Dependencies on_;
  std::atomic<int64_t> succeeded_ = 0;
  std::atomic<int64_t> failed_ = 0;
  std::atomic<int64_t> open_ = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_EVAL_RUNNER_H_
