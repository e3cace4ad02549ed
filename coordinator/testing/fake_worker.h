#ifndef PIPESTAGE_COORDINATOR_TESTING_FAKE_WORKER_H_
#define PIPESTAGE_COORDINATOR_TESTING_FAKE_WORKER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/testing/fake_fabric.h"
#include "grpcpp/grpcpp.h"
#include "package/model_package.h"
#include "proto/worker_link.grpc.pb.h"
#include "schedule/plan.h"
#include "tensor/exact_sum.h"
#include "tensor/microbatches.h"

namespace pipestage {

// A worker that attaches over the real link and really executes plans, on the
// stages of WriteTestModel: stage s makes 10*x + (s+1) of float64 numbers,
// times "scale" where the stage takes that keyword, plus the second row of
// "offset" where it takes that one; the loss is the squared error. Follows the
// protocol, void messages and all.
//
// Thread-safe.
class FakeWorker {
 public:
  struct Options {
    std::string address;
    std::string repository;
    std::string name = "w";
    int requested_rank = -1;
    int64_t incarnation = 1;
    std::vector<std::string> backends = {"gloo"};
    FakeFabric* fabric = nullptr;  // not owned
    // Called before each forward, in the executing thread: blocks, or fails the
    // call.
    std::function<absl::Status(int stage, int microbatch)> before_forward;
    // Answers to FormCommunicator and LoadStages.
    std::function<absl::Status()> form;
    std::function<absl::Status(const v1::LoadStages&)> load;
    bool answers_pings = true;
    // Says nothing at the end of a call, and that it has none.
    bool forgets_calls = false;
    // How much it lets itself be fed; a test that raises it says so itself.
    int64_t feed_window_bytes = int64_t{1} << 40;
    // Outputs larger than this go ahead of CallDone.
    size_t riding_bytes = 64 << 10;
  };

  explicit FakeWorker(Options options);
  ~FakeWorker();

  // The stream ends at once, as when the process is killed.
  void Kill();
  // Waits for the stream to end; its status.
  absl::Status Wait();
  // Says something that the protocol does not foresee.
  void Send(const v1::WorkerMessage& message) ABSL_LOCKS_EXCLUDED(write_mu_);

  int rank() const { return rank_; }
  // Messages received, by kind.
  int Count(v1::CoordinatorMessage::KindCase kind) ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until `count` messages of a kind have come.
  void AwaitCount(v1::CoordinatorMessage::KindCase kind, int count)
      ABSL_LOCKS_EXCLUDED(mu_);
  int forwards() const { return forwards_; }
  int64_t last_call() const { return last_call_; }
  std::vector<v1::FeedData> feeds() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Numbers = std::vector<double>;

  struct Inbox {
    std::map<std::pair<int, int>, Numbers> parts;  // argument, microbatch
    bool cancelled = false;
  };
  // A call while it is executed.
  struct Execution {
    v1::Run run;
    RankPlan plan;
    std::shared_ptr<const ModelPackage> package;
    Microbatches microbatches;
    std::map<std::pair<int, int>, FakeFabric::Activation> inputs;
    std::map<std::pair<int, int>, FakeFabric::Activation> outputs;
    v1::CallDone done;
    bool dead = false;
    bool aborted = false;
  };

  void Read();
  void Handle(const v1::CoordinatorMessage& message);
  void Form(const v1::FormCommunicator& form);
  void Load(const v1::LoadStages& load);
  void TakeFeed(const v1::FeedData& feed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnStoreValue(const v1::StoreValue& value);
  void Execute();
  void ExecuteRun(const v1::Run& run);
  void Act(Execution& call, const Action& action);
  void Forward(Execution& call, int stage, int microbatch);
  std::optional<Numbers> AwaitPart(const Execution& call, int argument,
                                   int microbatch) ABSL_LOCKS_EXCLUDED(mu_);
  bool ApplyKeywords(const Execution& call, int stage, int microbatch,
                     Numbers& values);
  bool FinishMicrobatch(Execution& call, int microbatch, const Numbers& y);
  void AddLoss(Execution& call, int microbatch, const Numbers& y,
               const Numbers& target);
  void Fail(Execution& call, const absl::Status& error);
  void SendOutputs(Execution& call);

  const Options options_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::WorkerLink::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<
      grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>>
      stream_;
  std::atomic<int> rank_ = -1;
  std::atomic<int> forwards_ = 0;
  std::atomic<int64_t> last_call_ = 0;

  absl::Mutex write_mu_;
  absl::Mutex mu_;
  std::map<int, int> counts_ ABSL_GUARDED_BY(mu_);
  std::map<std::pair<std::string, std::string>,
           std::shared_ptr<const ModelPackage>>
      packages_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, RankPlan> plans_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, Inbox> inboxes_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, v1::Run> known_runs_ ABSL_GUARDED_BY(mu_);
  std::deque<v1::Run> runs_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::FeedData> feeds_ ABSL_GUARDED_BY(mu_);
  v1::FormCommunicator forming_ ABSL_GUARDED_BY(mu_);
  int peers_met_ ABSL_GUARDED_BY(mu_) = 0;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_status_ ABSL_GUARDED_BY(mu_);
  std::thread reader_;
  std::thread executor_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_TESTING_FAKE_WORKER_H_
