#include "worker/torch_worker_main.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/torch/torch_device.h"
#include "worker/torch/torch_stage_loader.h"
#include "worker/transport/communicator_factory.h"
#include "worker/worker_main.h"

namespace pipestage {
namespace {

std::string DeviceOf(const WorkerFlags& flags) {
  if (flags.device != "auto") return flags.device;
  return AutomaticDevice(CountGpus(), flags.index, flags.workers_on_host);
}

// A person with GPUs would wonder why they idle.
void ExplainDevice(const WorkerFlags& flags) {
  const int gpus = CountGpus();
  if (flags.device == "auto" && gpus > 0 && flags.workers_on_host > gpus) {
    PIPESTAGE_LOG_WARN(
        "{} workers share this host, which has {} GPUs; NCCL needs one for "
        "each worker, so they use the CPU",
        flags.workers_on_host, gpus);
  }
}

// N of "cuda:N"; 0 of anything else.
int DeviceIndex(absl::string_view device) {
  int index = 0;
  if (!absl::ConsumePrefix(&device, "cuda:") ||
      !absl::SimpleAtoi(device, &index)) {
    return 0;
  }
  return index;
}

absl::StatusOr<std::unique_ptr<StageLoader>> MakeLoader(
    const WorkerFlags& flags) {
  ExplainDevice(flags);
  TorchStageLoader::Options options;
  options.device = DeviceOf(flags);
  options.intra_op_threads = flags.threads;
  options.allow_torchscript = flags.allow_torchscript;
  PIPESTAGE_ASSIGN_OR_RETURN(std::unique_ptr<StageLoader> loader,
                             TorchStageLoader::Create(options));
  return loader;
}

CommunicatorFactory MakeCommunicatorFactory(const WorkerFlags& flags) {
  const int device_index = DeviceIndex(DeviceOf(flags));
  return [device_index](const std::string& backend,
                        const CommunicatorOptions& options) {
    return CreateCommunicator(backend, options, device_index);
  };
}

}  // namespace

int TorchWorkerMain(int argc, char** argv) {
  WorkerParts parts;
  parts.make_loader = MakeLoader;
  parts.backends = AvailableBackends;
  parts.make_communicator_factory = MakeCommunicatorFactory;
  return WorkerMain(argc, argv, parts);
}

}  // namespace pipestage
