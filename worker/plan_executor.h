#ifndef PIPESTAGE_WORKER_PLAN_EXECUTOR_H_
#define PIPESTAGE_WORKER_PLAN_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "worker/message_header.h"
#include "worker/prepared_call.h"
#include "worker/receive_buffers.h"
#include "worker/receive_window.h"
#include "worker/result_sink.h"
#include "worker/send_window.h"
#include "worker/stage.h"
#include "worker/stage_activity.h"
#include "worker/transport/communicator.h"

namespace pipestage {

// When a forward ran, in microseconds since its call began here.
struct TimelineEntry {
  StageIndex stage;
  MicrobatchIndex microbatch;
  int64_t start_us = 0;
  int64_t end_us = 0;
};

// How a worker's part of a call went.
struct CallOutcome {
  bool complete = false;  // every action was computed
  absl::Duration busy;    // in stages
  absl::Duration wait;    // for inputs, receives and sends
  absl::Duration wall;
  std::vector<TimelineEntry> timeline;  // if wished for
};

// Carries out a rank's part of calls, one after the other, over one
// communicator.
//
// A call that cannot go on here (a stage failed, it was cancelled, the rank
// before gave up) is dead: its plan is still gone through, without computing
// and with void messages, so that every pair of ranks stays in step and other
// calls are not harmed.
//
// One thread, the communicator's. Announce calls in the order in which they are
// executed. Abort the communicator before destroying the executor.
class PlanExecutor {
 public:
  struct Options {
    std::string worker;  // its name, for messages
    ReceiveWindow::Options receive;
    SendWindow::Options send;
    // Is told what is computed; not owned, may be null.
    StageActivity* activity = nullptr;
  };

  // None is owned; all outlive the executor.
  PlanExecutor(Options options, Communicator* communicator, StageLoader* loader,
               ReceiveBuffers* buffers, Clock* clock);

  // Lets receives of the call be posted ahead. Once per call, before Execute.
  // Errors: as of Execute.
  absl::Status Announce(PreparedCall& call);

  // Runs the call to its end. `between_actions` is called before each action;
  // its error ends the call like the communicator's.
  //
  // An error means that the communicator is of no more use (or that the call's
  // inbox was aborted). What concerns the call alone goes to `sink`.
  absl::StatusOr<CallOutcome> Execute(
      const PreparedCall& call, ResultSink& sink,
      absl::FunctionRef<absl::Status()> between_actions);

  const ReceiveWindow& receive_window() const { return receives_; }

 private:
  class Execution;

  MessageHeader HeaderOf(const PreparedCall& call, StageIndex stage,
                         MicrobatchIndex m) const;
  // Bytes to fill void messages with, at least `size`.
  absl::StatusOr<StageTensor> Filler(size_t size);

  const Options options_;
  const Rank rank_;
  StageLoader* const loader_;
  Clock* const clock_;
  ReceiveWindow receives_;
  SendWindow sends_;
  StageTensor filler_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_PLAN_EXECUTOR_H_
