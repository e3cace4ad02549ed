#ifndef PIPESTAGE_WORKER_TRANSPORT_COMMUNICATOR_FACTORY_H_
#define PIPESTAGE_WORKER_TRANSPORT_COMMUNICATOR_FACTORY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/stage_tensor.h"
#include "worker/transport/communicator.h"

namespace pipestage {

// Backends that work between processes on this machine for tensors in the
// memory of `device`, preferred first. "nccl" only where a CUDA device can be
// used. Call it in main, before there are threads: for devices it sets what
// NCCL reads from the environment.
std::vector<std::string> AvailableBackends(DeviceKind device);

// Backends by name: those above and "inproc". `device_index` is the CUDA device
// of this rank; backends of host memory ignore it. Blocks until all ranks are
// there. Errors: InvalidArgument naming an unknown backend, or what the backend
// says.
absl::StatusOr<std::unique_ptr<Communicator>> CreateCommunicator(
    absl::string_view backend, const CommunicatorOptions& options,
    int device_index);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_COMMUNICATOR_FACTORY_H_
