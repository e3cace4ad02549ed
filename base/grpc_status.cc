#include "base/grpc_status.h"

#include "base/error_info.h"
#include "proto/error.pb.h"

namespace pipestage {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const v1::RpcStatus rpc_status = ToRpcStatus(status);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      rpc_status.message(), rpc_status.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  v1::RpcStatus rpc_status;
  if (status.error_details().empty() ||
      !rpc_status.ParseFromString(status.error_details())) {
    rpc_status.Clear();
  }
  // The details travel in a trailer that a proxy may drop or rewrite: code and
  // message are gRPC's own.
  rpc_status.set_code(status.error_code());
  rpc_status.set_message(status.error_message());
  return FromRpcStatus(rpc_status);
}

}  // namespace pipestage
