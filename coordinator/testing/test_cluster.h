#ifndef PIPESTAGE_COORDINATOR_TESTING_TEST_CLUSTER_H_
#define PIPESTAGE_COORDINATOR_TESTING_TEST_CLUSTER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/server.h"
#include "coordinator/testing/fake_fabric.h"
#include "coordinator/testing/fake_worker.h"
#include "coordinator/testing/test_models.h"
#include "proto/model_service.grpc.pb.h"
#include "proto/pipeline_service.grpc.pb.h"
#include "proto/status_service.grpc.pb.h"

namespace pipestage {

// A real coordinator on loopback with FakeWorkers, and clients' stubs to it.
class TestCluster {
 public:
  struct Options {
    int num_workers = 2;
    std::vector<TestModel> models = {TestModel()};
    bool load_models = true;
    bool start_workers = true;
    std::function<void(Server::Options&)> server;
    // Of the worker at a rank.
    std::function<void(int, FakeWorker::Options&)> worker;
  };

  // Everything is up, formed and loaded when it returns.
  explicit TestCluster(Options options);
  TestCluster() : TestCluster(Options()) {}
  ~TestCluster();

  // Starts the worker at `rank`, again if it was there.
  FakeWorker& StartWorker(int rank);
  FakeWorker& worker(int rank) { return *workers_.at(rank); }
  Server& server() { return *server_; }

  absl::StatusOr<v1::EvalResponse> Eval(
      const v1::EvalRequest& request,
      absl::Duration timeout = absl::Seconds(30));
  absl::StatusOr<v1::Model> LoadModel(const std::string& name,
                                      int num_workers = 0);
  v1::Status GetStatus();
  // Polls until `condition` holds; false after ten seconds.
  bool Await(const std::function<bool(const v1::Status&)>& condition);
  bool AwaitReady();

  std::unique_ptr<v1::PipelineService::Stub> pipeline;
  std::unique_ptr<v1::ModelService::Stub> models;
  std::shared_ptr<grpc::Channel> channel;
  const std::string& repository() const { return repository_; }

 private:
  const Options options_;
  const std::string repository_;
  FakeFabric fabric_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::StatusService::Stub> status_;
  std::map<int, std::unique_ptr<FakeWorker>> workers_;
  int64_t last_incarnation_ = 0;
};

// A request for `rows` rows from `base` in `microbatches` microbatches with
// outputs.
v1::EvalRequest DigitsRequest(int rows, int microbatches, double base = 0);

// Whether the answer to a DigitsRequest is what `num_stages` stages make of it.
bool IsExact(const v1::EvalRequest& request, const v1::EvalResponse& response,
             int num_stages);

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_TESTING_TEST_CLUSTER_H_
