#include "worker/torch_parts.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "worker/torch/torch_device.h"
#include "worker/torch/torch_stage_loader.h"
#include "worker/transport/communicator_factory.h"

namespace pipestage {
namespace {

// N of "cuda:N"; 0 for a device without a number.
int DeviceIndex(const std::string& device) {
  const size_t colon = device.find(':');
  return colon == std::string::npos ? 0 : std::atoi(&device[colon + 1]);
}

}  // namespace

WorkerParts TorchWorkerParts() {
  // Known once the loader is made, before a communicator is.
  const auto device_index = std::make_shared<int>(0);
  WorkerParts parts;
  parts.make_loader = [device_index](const WorkerFlags& flags)
      -> absl::StatusOr<std::unique_ptr<StageLoader>> {
    const std::string device =
        flags.device == "auto" ? DetectDevice() : flags.device;
    *device_index = DeviceIndex(device);
    return TorchStageLoader::Create({.device = device,
                                     .intra_op_threads = flags.threads,
                                     .allow_torchscript =
                                         flags.allow_torchscript});
  };
  parts.backends = AvailableBackends;
  parts.communicator_factory = [device_index](
                                   const std::string& backend,
                                   const CommunicatorOptions& options) {
    return CreateCommunicator(backend, options, *device_index);
  };
  return parts;
}

}  // namespace pipestage
