#include "client/pipeline_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/grpc_status.h"
#include "base/status_macros.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"

namespace pipestage {
namespace {

std::shared_ptr<grpc::Channel> Connect(const PipelineClient::Options& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  arguments.SetMaxSendMessageSize(
      -1);  // what is too large is the server's to say
  // A coordinator is a neighbour: never by way of $http_proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(options.address,
                                   options.credentials != nullptr
                                       ? options.credentials
                                       : grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PipelineClient>> PipelineClient::Create(
    Options options) {
  if (options.address.empty()) {
    return absl::InvalidArgumentError("the address is empty");
  }
  if (options.max_message_bytes < 1 || options.stream.chunk_bytes < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_message_bytes is ", options.max_message_bytes, " and chunk_bytes ",
        options.stream.chunk_bytes, "; at least 1"));
  }
  std::shared_ptr<grpc::Channel> channel = Connect(options);
  return std::unique_ptr<PipelineClient>(
      new PipelineClient(std::move(options), std::move(channel)));
}

PipelineClient::PipelineClient(Options options,
                               std::shared_ptr<grpc::Channel> channel)
    : options_(std::move(options)),
      pipeline_(v1::PipelineService::NewStub(channel)),
      models_(v1::ModelService::NewStub(channel)),
      status_(v1::StatusService::NewStub(channel)) {}

void PipelineClient::Prepare(grpc::ClientContext& context) const {
  if (options_.timeout < absl::InfiniteDuration()) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + options_.timeout));
  }
}

bool PipelineClient::NeedsStream(
    const EvalInput& input, const MicrobatchCallback& on_microbatch) const {
  return on_microbatch != nullptr || input.options.return_outputs() ||
         TensorBytes(input) > options_.max_unary_bytes;
}

absl::StatusOr<EvalResult> PipelineClient::Eval(
    const EvalInput& input, const MicrobatchCallback& on_microbatch,
    Transport transport) {
  grpc::ClientContext context;
  Prepare(context);
  const bool stream = transport == Transport::kChoose
                          ? NeedsStream(input, on_microbatch)
                          : transport == Transport::kStream;
  if (!stream) return UnaryEval(*pipeline_, context, input);
  return StreamedEval(*pipeline_, context, input, options_.stream,
                      on_microbatch);
}

absl::StatusOr<std::vector<v1::Model>> PipelineClient::ListModels() {
  std::vector<v1::Model> models;
  v1::ListModelsRequest request;
  do {
    grpc::ClientContext context;
    Prepare(context);
    v1::ListModelsResponse page;
    PIPESTAGE_RETURN_IF_ERROR(
        FromGrpcStatus(models_->ListModels(&context, request, &page)));
    for (v1::Model& model : *page.mutable_models()) {
      models.push_back(std::move(model));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return models;
}

absl::StatusOr<v1::Model> PipelineClient::GetModel(const v1::ModelRef& model) {
  grpc::ClientContext context;
  Prepare(context);
  v1::GetModelRequest request;
  *request.mutable_model() = model;
  v1::Model reply;
  PIPESTAGE_RETURN_IF_ERROR(
      FromGrpcStatus(models_->GetModel(&context, request, &reply)));
  return reply;
}

absl::StatusOr<v1::Model> PipelineClient::LoadModel(const v1::ModelRef& model,
                                                    int num_workers) {
  grpc::ClientContext context;
  Prepare(context);
  v1::LoadModelRequest request;
  *request.mutable_model() = model;
  request.set_num_workers(num_workers);
  v1::Model reply;
  PIPESTAGE_RETURN_IF_ERROR(
      FromGrpcStatus(models_->LoadModel(&context, request, &reply)));
  return reply;
}

absl::Status PipelineClient::UnloadModel(const v1::ModelRef& model) {
  grpc::ClientContext context;
  Prepare(context);
  v1::UnloadModelRequest request;
  *request.mutable_model() = model;
  v1::UnloadModelResponse reply;
  return FromGrpcStatus(models_->UnloadModel(&context, request, &reply));
}

absl::StatusOr<v1::Status> PipelineClient::GetStatus() {
  grpc::ClientContext context;
  Prepare(context);
  v1::Status reply;
  PIPESTAGE_RETURN_IF_ERROR(FromGrpcStatus(
      status_->GetStatus(&context, v1::GetStatusRequest(), &reply)));
  return reply;
}

}  // namespace pipestage
