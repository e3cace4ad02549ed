#ifndef PIPESTAGE_BASE_GRPC_STATUS_H_
#define PIPESTAGE_BASE_GRPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace pipestage {

// The one place where absl and gRPC statuses meet. Codes are the same numbers;
// ErrorInfo travels as google.rpc.Status in the binary error details.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace pipestage

#endif  // PIPESTAGE_BASE_GRPC_STATUS_H_
