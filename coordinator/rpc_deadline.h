#ifndef PIPESTAGE_COORDINATOR_RPC_DEADLINE_H_
#define PIPESTAGE_COORDINATOR_RPC_DEADLINE_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace pipestage {

// The client's deadline; the infinite future if it set none.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context);

// Why gRPC says that a call is cancelled: its deadline, or its client.
absl::Status CauseOfCancel(absl::Time deadline, absl::Time now);

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_RPC_DEADLINE_H_
