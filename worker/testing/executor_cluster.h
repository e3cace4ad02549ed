#ifndef PIPESTAGE_WORKER_TESTING_EXECUTOR_CLUSTER_H_
#define PIPESTAGE_WORKER_TESTING_EXECUTOR_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/plan_executor.h"
#include "worker/prepared_call.h"
#include "worker/receive_buffers.h"
#include "worker/testing/toy_pipeline.h"
#include "worker/testing/toy_stage.h"
#include "worker/transport/communicator.h"

namespace pipestage {

// A call for an ExecutorCluster.
struct ToyCall {
  int num_microbatches = 1;
  std::vector<double> x;  // rows * width
  std::map<std::string, double> scalars = {};
  std::map<std::string, std::vector<double>> positions = {};
  std::vector<double> t = {};  // rows * width, with "mse"
  CallWishes wishes = {.outputs = {0}, .with_loss = true};
  bool depth_first = false;
  bool feed = true;  // before the call begins; else the test does
};

// What became of it.
struct ToyResult {
  std::vector<absl::StatusOr<CallOutcome>> outcomes;  // by rank
  std::vector<absl::Status> failures;                 // by rank; OK: none
  // Of the last rank: by microbatch, in the order in which they came.
  std::vector<std::pair<int, StageTensor>> outputs;
  LossSum loss;

  // Elements of output 0, microbatches in order.
  std::vector<double> y() const;
  bool complete() const;
};

// P ranks that execute calls in threads of this process, over in-process
// communicators: the whole data plane without links and coordinator.
class ExecutorCluster {
 public:
  struct Options {
    int num_ranks = 1;
    int stages_per_rank = 1;
    PlanExecutor::Options executor = {};
    BeforeForward before_forward = nullptr;
    // Makes a rank's communicator; in-process if unset.
    std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>
        decorate = nullptr;
  };

  ExecutorCluster(const ToyPipeline& pipeline, Options options);
  ~ExecutorCluster();

  // Executes the calls in order on every rank; each is announced while the one
  // before it runs. `during` runs meanwhile in the caller's thread.
  std::vector<ToyResult> Run(
      const std::vector<ToyCall>& calls, std::function<void()> during = [] {});

  // Inbox of a rank for the n-th call of the Run under way or to come.
  CallInbox& inbox(int n, int rank) { return *inboxes_.at(n).at(rank); }
  // Makes the inboxes of the next Run ahead of it.
  void Prepare(const std::vector<ToyCall>& calls);
  // What the inboxes of call n are fed.
  void Feed(const ToyCall& call, int n);

  const ReceiveBuffers& buffers(int rank) const;
  const PlanExecutor& executor(int rank) const;
  Communicator& communicator(int rank);

 private:
  struct Node;
  PreparedCall MakeCall(const ToyCall& call, int n, int rank);
  void RunRank(const std::vector<ToyCall>& calls, int rank,
               std::vector<ToyResult>& results);

  const ToyPipeline pipeline_;
  const Options options_;
  std::shared_ptr<const PackageContract> contract_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::vector<std::shared_ptr<CallInbox>>> inboxes_;
  int64_t next_call_ = 1;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TESTING_EXECUTOR_CLUSTER_H_
