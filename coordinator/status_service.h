#ifndef PIPESTAGE_COORDINATOR_STATUS_SERVICE_H_
#define PIPESTAGE_COORDINATOR_STATUS_SERVICE_H_

#include <functional>
#include <utility>

#include "grpcpp/grpcpp.h"
#include "proto/status_service.grpc.pb.h"

namespace pipestage {

// Serves StatusService from a function that says what the service is doing.
//
// Thread-safe, if the function is.
class StatusServiceImpl final : public v1::StatusService::CallbackService {
 public:
  explicit StatusServiceImpl(std::function<v1::Status()> get_status)
      : get_status_(std::move(get_status)) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::Status* response) override {
    *response = get_status_();
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  const std::function<v1::Status()> get_status_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_STATUS_SERVICE_H_
