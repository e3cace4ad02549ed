#include "worker/transport/communicator_factory.h"

#include "absl/strings/str_cat.h"
#include "worker/transport/gloo_communicator.h"
#include "worker/transport/inproc_communicator.h"
#include "worker/transport/nccl_communicator.h"
#include "worker/transport/tcp_communicator.h"

namespace pipestage {

std::vector<std::string> AvailableBackends(DeviceKind device) {
  if (device == DeviceKind::kHost) return {"gloo", "tcp"};
  NcclCommunicator::PrepareProcess();
  if (NcclCommunicator::DeviceCount() > 0) return {"nccl"};
  return {};
}

absl::StatusOr<std::unique_ptr<Communicator>> CreateCommunicator(
    absl::string_view backend, const CommunicatorOptions& options,
    int device_index) {
  if (backend == "gloo") return GlooCommunicator::Create(options);
  if (backend == "tcp") return TcpCommunicator::Create(options);
  if (backend == "nccl") return NcclCommunicator::Create(options, device_index);
  if (backend == "inproc") return InprocCommunicator::Create(options);
  return absl::InvalidArgumentError(
      absl::StrCat("there is no communicator backend \"", backend,
                   "\"; there are gloo, tcp, nccl and inproc"));
}

}  // namespace pipestage
