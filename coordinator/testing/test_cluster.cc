#include "coordinator/testing/test_cluster.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/grpc_status.h"
#include "base/log.h"

namespace pipestage {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);

Server::Options MakeServerOptions(const TestCluster::Options& options,
                                  const std::string& repository) {
  Server::Options server;
  server.address = "127.0.0.1:0";
  server.model_repository = repository;
  server.membership.num_ranks = options.num_workers;
  server.membership.epoch = Epoch(77);
  server.membership.cause_grace = absl::Milliseconds(100);
  server.membership.draw_store_prefix = [number = 0]() mutable {
    return absl::StrCat("test", ++number, "/");
  };
  if (options.server) options.server(server);
  return server;
}

}  // namespace

TestCluster::TestCluster(Options options)
    : options_(std::move(options)), repository_(MakeTempDir()) {
  for (const TestModel& model : options_.models) {
    WriteTestModel(repository_, model);
  }
  auto server = Server::Create(MakeServerOptions(options_, repository_));
  PIPESTAGE_CHECK(server.ok());
  server_ = *std::move(server);
  PIPESTAGE_CHECK(server_->Start().ok());
  channel = grpc::CreateChannel(server_->address(),
                                grpc::InsecureChannelCredentials());
  pipeline = v1::PipelineService::NewStub(channel);
  models = v1::ModelService::NewStub(channel);
  status_ = v1::StatusService::NewStub(channel);
  if (!options_.start_workers) return;
  for (int r = 0; r < options_.num_workers; ++r) StartWorker(r);
  PIPESTAGE_CHECK(AwaitReady());
  if (!options_.load_models) return;
  for (const TestModel& model : options_.models) {
    PIPESTAGE_CHECK(LoadModel(model.name).ok());
  }
}

TestCluster::~TestCluster() {
  server_->Stop();
  workers_.clear();
}

FakeWorker& TestCluster::StartWorker(int rank) {
  workers_.erase(rank);
  FakeWorker::Options worker;
  worker.address = server_->address();
  worker.repository = repository_;
  worker.name = absl::StrCat("w", rank);
  worker.requested_rank = rank;
  worker.incarnation = ++last_incarnation_;
  worker.fabric = &fabric_;
  if (options_.worker) options_.worker(rank, worker);
  return *(workers_[rank] = std::make_unique<FakeWorker>(std::move(worker)));
}

absl::StatusOr<v1::EvalResponse> TestCluster::Eval(
    const v1::EvalRequest& request, absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMilliseconds(timeout));
  v1::EvalResponse response;
  const absl::Status status =
      FromGrpcStatus(pipeline->Eval(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<v1::Model> TestCluster::LoadModel(const std::string& name,
                                                 int num_workers) {
  grpc::ClientContext context;
  v1::LoadModelRequest request;
  request.mutable_model()->set_name(name);
  request.set_num_workers(num_workers);
  v1::Model model;
  const absl::Status status =
      FromGrpcStatus(models->LoadModel(&context, request, &model));
  if (!status.ok()) return status;
  return model;
}

v1::Status TestCluster::GetStatus() {
  grpc::ClientContext context;
  v1::Status status;
  PIPESTAGE_CHECK(
      status_->GetStatus(&context, v1::GetStatusRequest(), &status).ok());
  return status;
}

bool TestCluster::Await(
    const std::function<bool(const v1::Status&)>& condition) {
  const absl::Time until = absl::Now() + kPatience;
  while (absl::Now() < until) {
    if (condition(server_->GetStatus())) return true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

bool TestCluster::AwaitReady() {
  return Await(
      [](const v1::Status& status) { return status.state() == v1::READY; });
}

v1::EvalRequest DigitsRequest(int rows, int microbatches, double base) {
  v1::EvalRequest request;
  request.mutable_model()->set_name("digits");
  (*request.mutable_inputs())["x"] = Rows(rows, base);
  request.mutable_options()->set_num_microbatches(microbatches);
  request.mutable_options()->set_return_outputs(true);
  return request;
}

bool IsExact(const v1::EvalRequest& request, const v1::EvalResponse& response,
             int num_stages) {
  const std::vector<double> x = ValuesOf(request.inputs().at("x"));
  if (response.outputs().count("y") == 0) return false;
  const std::vector<double> y = ValuesOf(response.outputs().at("y"));
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i) {
    if (y[i] != DigitsOf(x[i], num_stages)) return false;
  }
  return true;
}

}  // namespace pipestage
