#ifndef PIPESTAGE_COORDINATOR_MODEL_SERVICE_H_
#define PIPESTAGE_COORDINATOR_MODEL_SERVICE_H_

#include "coordinator/model_registry.h"
#include "grpcpp/grpcpp.h"
#include "proto/model_service.grpc.pb.h"

namespace pipestage {

// Serves ModelService: translates between gRPC and the ModelRegistry. A load
// goes on when its client has gone.
//
// Thread-safe.
class ModelServiceImpl final : public v1::ModelService::CallbackService {
 public:
  // Not owned; outlives the service.
  explicit ModelServiceImpl(ModelRegistry* models) : models_(models) {}

  grpc::ServerUnaryReactor* ListModels(
      grpc::CallbackServerContext* context,
      const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::Model* response) override;
  grpc::ServerUnaryReactor* LoadModel(grpc::CallbackServerContext* context,
                                      const v1::LoadModelRequest* request,
                                      v1::Model* response) override;
  grpc::ServerUnaryReactor* UnloadModel(
      grpc::CallbackServerContext* context,
      const v1::UnloadModelRequest* request,
      v1::UnloadModelResponse* response) override;

 private:
  ModelRegistry* const models_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_MODEL_SERVICE_H_
