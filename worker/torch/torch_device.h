#ifndef PIPESTAGE_WORKER_TORCH_TORCH_DEVICE_H_
#define PIPESTAGE_WORKER_TORCH_TORCH_DEVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "c10/core/Device.h"
#include "c10/core/DeviceGuard.h"

namespace pipestage {

// The device named "cpu", "cuda" (the first) or "cuda:N", ready for use.
// LibTorch's CUDA half is loaded when a CUDA device is asked for, not before:
// it costs half a gigabyte and a worker on a CPU does without.
//
// InvalidArgument for another name; FailedPrecondition if CUDA is not usable
// here, saying why.
absl::StatusOr<c10::Device> OpenDevice(absl::string_view name);

// The device of a worker that was given none: of the GPUs of this host the one
// that its index falls on, so that workers with consecutive indices get one
// each; the CPU if there is no GPU or fewer than workers on the host, because
// NCCL needs one for each rank. An `index` below 0 counts as 0.
std::string AutomaticDevice(int num_gpus, int index, int workers_on_host);

// How many GPUs are usable here; 0 without a driver.
int CountGpus();

// While it lives, the calling thread computes on `device` and with as many
// intra-op threads as the process was told to: OpenMP keeps that number for
// each thread, and not every kernel asks LibTorch for it.
class DeviceScope {
 public:
  explicit DeviceScope(c10::Device device);

 private:
  const c10::OptionalDeviceGuard guard_;
};

// After an error on `device`: ends the process, saying why, if no kernel can
// run there any more. An index out of range within a kernel does that to the
// process's use of the GPU, for good: every later call would fail. Whoever
// supervises the process starts it again.
void EndProcessIfLost(c10::Device device, const absl::Status& error);

// "cpu", "cuda:0 NVIDIA H200".
std::string DescribeDevice(c10::Device device);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_TORCH_DEVICE_H_
