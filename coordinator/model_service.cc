#include "coordinator/model_service.h"

#include <utility>

#include "base/grpc_status.h"

namespace pipestage {
namespace {

// Finishes with the status of `result`, whose value is the response if it has
// one.
template <typename Response>
void Finish(grpc::ServerUnaryReactor* reactor, absl::StatusOr<Response> result,
            Response* response) {
  if (result.ok()) *response = *std::move(result);
  reactor->Finish(ToGrpcStatus(result.status()));
}

}  // namespace

grpc::ServerUnaryReactor* ModelServiceImpl::ListModels(
    grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
    v1::ListModelsResponse* response) {
  auto* reactor = context->DefaultReactor();
  Finish(reactor, models_->List(*request), response);
  return reactor;
}

grpc::ServerUnaryReactor* ModelServiceImpl::GetModel(
    grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
    v1::Model* response) {
  auto* reactor = context->DefaultReactor();
  Finish(reactor, models_->Get(request->model()), response);
  return reactor;
}

grpc::ServerUnaryReactor* ModelServiceImpl::LoadModel(
    grpc::CallbackServerContext* context, const v1::LoadModelRequest* request,
    v1::Model* response) {
  auto* reactor = context->DefaultReactor();
  models_->Load(request->model(), request->num_workers(),
                [reactor, response](absl::StatusOr<v1::Model> model) {
                  Finish(reactor, std::move(model), response);
                });
  return reactor;
}

grpc::ServerUnaryReactor* ModelServiceImpl::UnloadModel(
    grpc::CallbackServerContext* context, const v1::UnloadModelRequest* request,
    v1::UnloadModelResponse* response) {
  auto* reactor = context->DefaultReactor();
  models_->Unload(request->model(), [reactor](const absl::Status& status) {
    reactor->Finish(ToGrpcStatus(status));
  });
  return reactor;
}

}  // namespace pipestage
