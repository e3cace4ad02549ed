#include "client/testing/fake_coordinator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <set>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error_info.h"
#include "base/grpc_status.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "proto/model_service.grpc.pb.h"
#include "proto/pipeline_service.grpc.pb.h"
#include "proto/status_service.grpc.pb.h"
#include "tensor/host_tensor.h"
#include "tensor/microbatches.h"

namespace pipestage {
namespace {

using Stream = grpc::ServerReaderWriter<v1::EvalEvent, v1::EvalChunk>;

const std::set<std::string>& KnownModels() {
  static const auto& models = *new std::set<std::string>{
      "echo", "nolabel", "nan", "noloss", "stall", "hasty", "chatty"};
  return models;
}

grpc::Status NotFound(const v1::ModelRef& model) {
  return ToGrpcStatus(WithReason(
      absl::NotFoundError(absl::StrCat("no model \"", model.name(), "\"")),
      reason::kModelNotFound));
}

v1::Loss LossOf(double sum, int64_t weight) {
  v1::Loss loss;
  loss.set_sum(sum);
  loss.set_weight(weight);
  if (weight > 0) loss.set_mean(sum / weight);
  loss.set_nonfinite(sum == sum ? 0 : 1);
  return loss;
}

v1::MicrobatchLoss MicrobatchOf(const std::string& model,
                                const Microbatches& split, int m) {
  const MicrobatchIndex index(m);
  v1::MicrobatchLoss loss;
  loss.set_microbatch(m);
  loss.set_first_row(split.first_row(index));
  loss.set_rows(split.rows(index));
  const bool nan = model == "nan" && m == 1;
  const int64_t weight = model == "nolabel" ? 0 : split.rows(index);
  *loss.mutable_loss() = LossOf(
      nan ? std::numeric_limits<double>::quiet_NaN() : 0.5 * weight, weight);
  return loss;
}

// Everything but the outputs.
v1::EvalResponse Answer(const v1::ModelRef& model,
                        const v1::CallOptions& options, int64_t rows) {
  const Microbatches split = *Microbatches::Create(
      std::max<int64_t>(rows, 1), std::max(1, options.num_microbatches()));
  v1::EvalResponse answer;
  if (model.name() != "noloss") {
    double sum = 0;
    int64_t weight = 0;
    for (int m = 0; m < split.count(); ++m) {
      *answer.add_microbatches() = MicrobatchOf(model.name(), split, m);
      sum += answer.microbatches(m).loss().sum();
      weight += answer.microbatches(m).loss().weight();
    }
    *answer.mutable_loss() = LossOf(sum, weight);
  }
  if (options.return_row_losses()) {
    const std::vector<double> sums(rows, 0.5);
    const std::vector<int64_t> weights(rows, 1);
    answer.mutable_row_losses()->set_dtype(v1::FLOAT64);
    answer.mutable_row_losses()->add_shape(rows);
    answer.mutable_row_losses()->set_data(sums.data(), rows * 8);
    answer.mutable_row_weights()->set_dtype(v1::INT64);
    answer.mutable_row_weights()->add_shape(rows);
    answer.mutable_row_weights()->set_data(weights.data(), rows * 8);
  }
  if (options.return_timeline()) {
    v1::WorkerTimeline* timeline = answer.add_timeline();
    timeline->set_worker("w0");
    for (int m = 0; m < split.count(); ++m) {
      v1::TimelineAction* action = timeline->add_actions();
      action->set_action(absl::StrCat("0F", m));
      action->set_start_s(m * 0.001);
      action->set_end_s((m + 1) * 0.001);
    }
  }
  v1::Ran* ran = answer.mutable_ran();
  ran->set_model(model.name());
  ran->set_version("1");
  ran->set_schedule(options.schedule().empty() ? "1F1B" : options.schedule());
  ran->set_workers(1);
  ran->set_stages_per_worker(1);
  ran->set_num_microbatches(split.count());
  ran->set_call_id("1-1-1");
  answer.mutable_timings()->set_total_s(0.25);
  return answer;
}

void WaitUntilOver(grpc::ServerContext* context) {
  while (!context->IsCancelled()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

struct FakeCoordinator::Services {
  class Pipeline : public v1::PipelineService::Service {
   public:
    grpc::Status Eval(grpc::ServerContext* context,
                      const v1::EvalRequest* request,
                      v1::EvalResponse* response) override {
      ++unary_calls;
      const std::string& model = request->model().name();
      if (KnownModels().count(model) == 0) return NotFound(request->model());
      if (model == "stall") WaitUntilOver(context);
      const v1::Tensor& x = request->inputs().at("x");
      *response = Answer(request->model(), request->options(),
                         x.shape_size() > 0 ? x.shape(0) : 0);
      if (request->options().return_outputs()) {
        (*response->mutable_outputs())["y"] = x;
      }
      return grpc::Status::OK;
    }

    grpc::Status StreamEval(grpc::ServerContext* context,
                            Stream* stream) override {
      ++streamed_calls;
      v1::EvalChunk message;
      if (!stream->Read(&message) || !message.has_header()) {
        return {grpc::StatusCode::INVALID_ARGUMENT, "no header"};
      }
      const v1::EvalHeader header = message.header();
      const std::string& model = header.model().name();
      if (KnownModels().count(model) == 0) return NotFound(header.model());
      if (model == "stall") WaitUntilOver(context);
      if (model == "hasty") {
        return ToGrpcStatus(WithReason(absl::AbortedError("stage 0 failed"),
                                       reason::kStageFailed,
                                       {{"stage", "0"}, {"worker", "w0"}}));
      }
      const v1::TensorAnnouncement x = header.tensors(0);
      if (model == "chatty") {
        Reply(header, x, std::string(BytesOf(x.spec()), 'c'), stream);
        ReadBytes(0, stream);
        return grpc::Status::OK;
      }
      Reply(header, x, ReadBytes(0, stream), stream);
      return grpc::Status::OK;
    }

    std::atomic<int> unary_calls{0};
    std::atomic<int> streamed_calls{0};
    std::atomic<int64_t> largest_chunk{0};

   private:
    static int64_t BytesOf(const v1::TensorSpec& spec) {
      const Shape shape(spec.shape().begin(), spec.shape().end());
      return *NumBytes(static_cast<DType>(spec.dtype()), shape);
    }

    std::string ReadBytes(int tensor, Stream* stream) {
      std::string bytes;
      v1::EvalChunk message;
      while (stream->Read(&message)) {
        const std::string& data = message.chunk().data();
        largest_chunk = std::max<int64_t>(largest_chunk, data.size());
        if (message.chunk().tensor() == tensor) bytes += data;
      }
      return bytes;
    }

    static void Reply(const v1::EvalHeader& header,
                      const v1::TensorAnnouncement& x, const std::string& bytes,
                      Stream* stream) {
      const v1::EvalResponse answer =
          Answer(header.model(), header.options(), x.spec().shape(0));
      v1::EvalEvent event;
      for (const v1::MicrobatchLoss& loss : answer.microbatches()) {
        *event.mutable_microbatch() = loss;
        stream->Write(event);
      }
      if (header.options().return_outputs()) {
        v1::TensorAnnouncement* y = event.mutable_outputs()->add_tensors();
        *y = x;
        y->set_name("y");
        y->set_role(v1::OUTPUT);
        stream->Write(event);
        for (size_t at = 0; at < bytes.size(); at += 100'000) {
          event.mutable_chunk()->set_tensor(0);
          event.mutable_chunk()->set_data(bytes.substr(at, 100'000));
          stream->Write(event);
        }
      }
      *event.mutable_summary() = answer;
      stream->Write(event);
    }
  };

  class Models : public v1::ModelService::Service {
   public:
    grpc::Status ListModels(grpc::ServerContext*,
                            const v1::ListModelsRequest* request,
                            v1::ListModelsResponse* response) override {
      // One model a page, so that clients have to turn it.
      const std::string version = request->page_token().empty() ? "2" : "1";
      *response->add_models() = Describe(version);
      if (version == "2") response->set_next_page_token("next");
      return grpc::Status::OK;
    }
    grpc::Status GetModel(grpc::ServerContext*,
                          const v1::GetModelRequest* request,
                          v1::Model* response) override {
      if (request->model().name() != "echo") return NotFound(request->model());
      *response = Describe(request->model().version());
      return grpc::Status::OK;
    }
    grpc::Status LoadModel(grpc::ServerContext*,
                           const v1::LoadModelRequest* request,
                           v1::Model* response) override {
      if (request->model().name() != "echo") return NotFound(request->model());
      const std::string& version = request->model().version();
      {
        absl::MutexLock lock(&mu_);
        loaded_.insert(version.empty() ? "2" : version);
      }
      *response = Describe(version);
      return grpc::Status::OK;
    }
    grpc::Status UnloadModel(grpc::ServerContext*,
                             const v1::UnloadModelRequest* request,
                             v1::UnloadModelResponse*) override {
      absl::MutexLock lock(&mu_);
      return loaded_.erase(request->model().version()) > 0
                 ? grpc::Status::OK
                 : NotFound(request->model());
    }

    int loaded() const {
      absl::MutexLock lock(&mu_);
      return static_cast<int>(loaded_.size());
    }

   private:
    v1::Model Describe(const std::string& version) const {
      v1::Model model;
      model.set_name("echo");
      model.set_version(version.empty() ? "2" : version);
      absl::MutexLock lock(&mu_);
      model.set_state(loaded_.count(model.version()) > 0 ? v1::SERVING
                                                         : v1::AVAILABLE);
      v1::TensorContract* x = model.add_inputs();
      x->set_name("x");
      x->set_dtype(v1::FLOAT32);
      x->add_shape("rows");
      x->add_shape("3");
      return model;
    }

    mutable absl::Mutex mu_;
    std::set<std::string> loaded_ ABSL_GUARDED_BY(mu_);
  };

  class StatusOfIt : public v1::StatusService::Service {
   public:
    grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                           v1::Status* response) override {
      response->set_version("fake");
      response->set_state(v1::READY);
      response->set_workers_expected(1);
      response->add_workers()->set_name("w0");
      response->add_serving("echo@1");
      response->mutable_plan_cache()->set_hits(3);
      return grpc::Status::OK;
    }
  };

  Pipeline pipeline;
  Models models;
  StatusOfIt status;
};

FakeCoordinator::FakeCoordinator() : services_(std::make_unique<Services>()) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&services_->pipeline);
  builder.RegisterService(&services_->models);
  builder.RegisterService(&services_->status);
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
}

FakeCoordinator::~FakeCoordinator() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

int FakeCoordinator::unary_calls() const {
  return services_->pipeline.unary_calls;
}
int FakeCoordinator::streamed_calls() const {
  return services_->pipeline.streamed_calls;
}
int64_t FakeCoordinator::largest_chunk() const {
  return services_->pipeline.largest_chunk;
}
int FakeCoordinator::loaded_models() const {
  return services_->models.loaded();
}

}  // namespace pipestage
