#ifndef PIPESTAGE_WORKER_WORKER_H_
#define PIPESTAGE_WORKER_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/ids.h"
#include "grpcpp/security/credentials.h"
#include "worker/call_runner.h"
#include "worker/communicator_slot.h"
#include "worker/coordinator_link.h"
#include "worker/feed_window.h"
#include "worker/model_store.h"
#include "worker/plan_executor.h"
#include "worker/plan_store.h"
#include "worker/run_queue.h"
#include "worker/stage.h"
#include "worker/stage_activity.h"
#include "worker/stage_watch.h"
#include "worker/task_thread.h"

namespace pipestage {

// A worker of a pipeline: attaches to its coordinator, loads stages, runs its
// part of calls. Any number of them may live in one process.
//
// Threads: the link's (reads messages, answers pings), the compute thread
// (communicator and stages), the loader (models), one that watches the
// coordinator and one that writes what is large. When the stream to the
// coordinator is lost, the communicator is ended and runs are dropped, but
// loaded models are kept: a worker that comes back is ready soon.
//
// Thread-safe.
class Worker {
 public:
  struct Options {
    std::string coordinator;                                // host:port
    std::shared_ptr<grpc::ChannelCredentials> credentials;  // null: insecure
    std::string repository;                                 // where models are
    std::string name;
    Incarnation incarnation;
    int requested_rank = -1;  // -1: any
    bool allow_torchscript = false;
    // Backends the factory makes, best first.
    std::vector<std::string> backends;
    CommunicatorFactory communicator_factory;
    // Where peers reach this worker: see CommunicatorOptions.
    std::string host = "127.0.0.1";
    std::string network_interface;
    // Operations between ranks end after this at the latest; zero: what the
    // coordinator says.
    absl::Duration communicator_timeout;
    PlanExecutor::Options executor;
    // How far ahead of its calls the worker is fed: see FeedWindow.
    int64_t feed_window_bytes = 8 << 20;
    // A stage that computes on one microbatch for longer is stuck.
    absl::Duration stage_timeout = absl::InfiniteDuration();
    // Called once then, from a thread of the worker's own, when the coordinator
    // has been told: nothing but the end of the process stops a stage.
    std::function<void(const std::string& what)> on_stuck;
    absl::Duration min_backoff = absl::Milliseconds(200);
    absl::Duration max_backoff = absl::Seconds(5);
    // Not owned; outlive the worker.
    StageLoader* loader = nullptr;
    Clock* clock = nullptr;
    // Uniform in [0, 1).
    std::function<double()> random;
  };

  explicit Worker(Options options);
  // Stops at once.
  ~Worker();

  void Start();

  // Set when the coordinator wants this worker gone. Call Stop then.
  const absl::Notification& shutdown_requested() const {
    return shutdown_requested_;
  }

  // Takes leave of the coordinator and waits, for at most `patience`, until no
  // call needs this worker, nor what it has sent, any more; then stops. With no
  // patience calls are broken off. A stage that computes is waited for without
  // limit. Idempotent.
  void Stop(absl::Duration patience);

  // For tests and status.
  const ModelStore& models() const { return models_; }
  const RunQueue& queue() const { return queue_; }

 private:
  // What the link hears, sorted.
  class Handler : public LinkHandler {
   public:
    explicit Handler(Worker* worker) : worker_(worker) {}
    void OnAttached(const v1::Welcome& welcome) override;
    void OnMessage(v1::CoordinatorMessage message) override;
    void OnLost(const absl::Status& reason) override;

   private:
    Worker* const worker_;
    std::shared_ptr<FeedWindow> window_;  // of this attachment
  };

  v1::Hello MakeHello() const;
  CoordinatorLink::Options LinkOptions() const;
  void Form(v1::FormCommunicator form);
  void End(Generation last, const absl::Status& reason);
  void Load(const v1::LoadStages& request);
  void Unload(const v1::UnloadModelStages& request);
  void Answer(const v1::Ping& ping);
  void TellFeedLimit(int64_t limit);
  // Says that this worker leaves, and waits until it may.
  void TakeLeave(absl::Duration patience);
  void SetAttached(bool attached);
  void LetGo();
  void SayLeaving(bool at_once, const std::string& reason);
  void OnStuck(const StageActivity::Work& work, absl::Duration elapsed);

  const Options options_;
  Handler handler_;
  CoordinatorLink link_;
  PlanStore plans_;
  ModelStore models_;
  RunQueue queue_;
  CommunicatorSlot slot_;
  StageActivity activity_;
  absl::Notification shutdown_requested_;
  absl::Mutex link_mu_;
  bool is_attached_ ABSL_GUARDED_BY(link_mu_) = false;
  bool may_leave_ ABSL_GUARDED_BY(link_mu_) = false;  // Shutdown has come
  std::unique_ptr<TaskThread> loader_thread_;
  std::unique_ptr<CallRunner> runner_;
  std::unique_ptr<StageWatch> stage_watch_;
  absl::Mutex stop_mu_;
  bool stopped_ ABSL_GUARDED_BY(stop_mu_) = false;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_WORKER_H_
