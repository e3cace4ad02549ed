// Calls Eval in a closed loop and prints, a line a call, how long it took: the
// client's half of side_by_side.py, in C++ so that no Python stands in the way.
//
// Reads one JSON command a line from standard input:
//   {"model": "tiny", "version": "1", "rows": 4, "width": 16, "microbatches":
//   4,
//    "calls": 30, "schedule": "1F1B", "outputs": true, "in_flight": 1}
// and answers each with one JSON line: arrays of seconds, one entry a call.

#include <deque>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "nlohmann/json.hpp"
#include "proto/pipeline_service.grpc.pb.h"
#include "proto/status_service.grpc.pb.h"

namespace pipestage {
namespace {

using nlohmann::json;

v1::EvalRequest MakeRequest(const json& command) {
  const int64_t rows = command.at("rows");
  const int64_t width = command.at("width");
  v1::EvalRequest request;
  request.mutable_model()->set_name(command.at("model").get<std::string>());
  request.mutable_model()->set_version(
      command.at("version").get<std::string>());
  auto* options = request.mutable_options();
  options->set_num_microbatches(command.at("microbatches"));
  options->set_schedule(command.at("schedule").get<std::string>());
  options->set_return_outputs(command.at("outputs"));
  v1::Tensor& x = (*request.mutable_inputs())["x"];
  x.set_dtype(v1::FLOAT32);
  x.add_shape(rows);
  x.add_shape(width);
  const std::vector<float> ones(rows * width, 1.0f);
  x.set_data(ones.data(), ones.size() * sizeof(float));
  return request;
}

// One thread's closed loop of calls.
class Loop {
 public:
  Loop(v1::PipelineService::Stub* stub, const v1::EvalRequest* request,
       int calls)
      : stub_(stub), request_(request), calls_(calls) {}

  void Run() {
    for (int i = 0; i < calls_ && error_.empty(); ++i) {
      grpc::ClientContext context;
      v1::EvalResponse response;
      const absl::Time start = absl::Now();
      const grpc::Status status = stub_->Eval(&context, *request_, &response);
      const double wall = absl::ToDoubleSeconds(absl::Now() - start);
      if (!status.ok()) error_ = status.error_message();
      Note(wall, response);
    }
  }

  void AppendTo(json& answer) const {
    for (const auto& [key, values] : columns_) {
      for (const double value : values) answer[key].push_back(value);
    }
    if (!error_.empty()) answer["error"] = error_;
  }

 private:
  void Note(double wall, const v1::EvalResponse& response) {
    const auto& timings = response.timings();
    columns_["client_s"].push_back(wall);
    columns_["run_s"].push_back(timings.run_s());
    columns_["execute_s"].push_back(timings.execute_s());
    columns_["total_s"].push_back(timings.total_s());
    columns_["bubble_ratio"].push_back(timings.bubble_ratio());
    columns_["plan_cache_hit"].push_back(response.ran().plan_cache_hit());
  }

  v1::PipelineService::Stub* const stub_;
  const v1::EvalRequest* const request_;
  const int calls_;
  std::string error_;
  std::map<std::string, std::vector<double>> columns_;
};

json RunCommand(v1::PipelineService::Stub* stub,
                v1::StatusService::Stub* status_stub, const json& command) {
  const v1::EvalRequest request = MakeRequest(command);
  const int in_flight = command.value("in_flight", 1);
  std::deque<Loop> loops;
  std::vector<std::thread> threads;
  const absl::Time start = absl::Now();
  for (int i = 0; i < in_flight; ++i) {
    loops.emplace_back(stub, &request,
                       command.at("calls").get<int>() / in_flight);
    threads.emplace_back([&loops, i] { loops[i].Run(); });
  }
  for (std::thread& thread : threads) thread.join();
  json answer;
  answer["wall_s"] = absl::ToDoubleSeconds(absl::Now() - start);
  for (const Loop& loop : loops) loop.AppendTo(answer);
  grpc::ClientContext context;
  v1::Status status;
  if (status_stub->GetStatus(&context, v1::GetStatusRequest(), &status).ok()) {
    for (const auto& worker : status.workers()) {
      answer["ping_s"].push_back(worker.ping_s());
    }
  }
  return answer;
}

int Main(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(512 << 20);
  const auto channel = grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments);
  const auto stub = v1::PipelineService::NewStub(channel);
  const auto status_stub = v1::StatusService::NewStub(channel);
  std::string line;
  while (std::getline(std::cin, line)) {
    const json command = json::parse(line, nullptr, false);
    if (command.is_discarded()) return 2;
    std::cout << RunCommand(stub.get(), status_stub.get(), command).dump()
              << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace pipestage

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: eval_client HOST:PORT < commands\n";
    return 2;
  }
  return pipestage::Main(argv[1]);
}
