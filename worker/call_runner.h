#ifndef PIPESTAGE_WORKER_CALL_RUNNER_H_
#define PIPESTAGE_WORKER_CALL_RUNNER_H_

#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/clock.h"
#include "proto/worker_link.pb.h"
#include "worker/call_preparer.h"
#include "worker/communicator_slot.h"
#include "worker/outbox.h"
#include "worker/plan_executor.h"
#include "worker/receive_buffers.h"
#include "worker/result_writer.h"
#include "worker/run_queue.h"
#include "worker/stage.h"

namespace pipestage {

// The compute thread: forms communicators and runs calls, in the order of the
// queue, the next as soon as its own part of this one is done.
//
// A failing call ends nothing but itself. A failing communicator ends its
// generation: it is reported, and all runs of the generation are dropped.
class CallRunner {
 public:
  struct Options {
    std::string worker;  // its name, for messages
    PlanExecutor::Options executor;
    ResultWriter::Options results;
  };
  // None is owned; all outlive the runner.
  struct Parts {
    RunQueue* queue;
    CommunicatorSlot* slot;
    const PlanStore* plans;
    const ModelStore* models;
    StageLoader* loader;
    Outbox* outbox;
    Clock* clock;
  };

  CallRunner(Options options, Parts parts);
  // Stops the queue and joins the thread. A call that runs is finished first:
  // end its generation to make it stop.
  ~CallRunner();

 private:
  // A communicator and what works on it.
  struct Session {
    Generation generation;
    std::shared_ptr<Communicator> communicator;
    std::unique_ptr<PlanExecutor> executor;
  };

  void Loop();
  void Form(const v1::FormCommunicator& form);
  void EndSession(const absl::Status& reason);
  // Makes a run ready and puts it behind those that are.
  absl::Status Announce(RunQueue::Work work);
  absl::Status AnnounceMore();
  void ExecuteNext();
  void Refuse(const v1::Run& run, const absl::Status& error);
  void OnCommunicatorFailed(const absl::Status& error);

  const Options options_;
  const Parts parts_;
  ReceiveBuffers buffers_;
  CallPreparer preparer_;
  std::unique_ptr<Session> session_;
  // Ready to be executed; receives of the first may have been posted already.
  std::deque<PreparedCall> announced_;
  std::thread thread_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_CALL_RUNNER_H_
