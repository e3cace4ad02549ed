#include "coordinator/rpc_deadline.h"

#include <chrono>

namespace pipestage {

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return absl::InfiniteFuture();
  }
  return absl::FromChrono(deadline);
}

absl::Status CauseOfCancel(absl::Time deadline, absl::Time now) {
  if (now >= deadline) {
    return absl::DeadlineExceededError("the call's deadline has passed");
  }
  return absl::CancelledError("the client cancelled the call");
}

}  // namespace pipestage
