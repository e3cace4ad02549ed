#include "worker/torch/torch_device.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "ATen/Context.h"
#include "ATen/Parallel.h"
#include "ATen/core/Tensor.h"
#include "ATen/ops/ones.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/torch/torch_errors.h"

namespace pipestage {
namespace {

// Its kernels register themselves.
absl::Status LoadCudaLibrary() {
  if (at::detail::getCUDAHooks().hasCUDA()) return absl::OkStatus();
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("LibTorch's CUDA library cannot be loaded: ", dlerror()));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> CountCudaDevices() {
  PIPESTAGE_RETURN_IF_ERROR(LoadCudaLibrary());
  const auto count =
      CallTorch("counting CUDA devices", []() -> absl::StatusOr<int> {
        return at::detail::getCUDAHooks().getNumGPUs();
      });
  if (!count.ok()) {
    return absl::FailedPreconditionError(count.status().message());
  }
  if (*count == 0) {
    return absl::FailedPreconditionError(
        "there is no CUDA device on this machine, or no driver for it");
  }
  return count;
}

// From the driver, whose interface is plain C; empty if it does not say.
std::string CudaDeviceName(int index) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return "";
  using GetDevice = int (*)(int* device, int ordinal);
  using GetName = int (*)(char* name, int length, int device);
  const auto get_device =
      reinterpret_cast<GetDevice>(dlsym(driver, "cuDeviceGet"));
  const auto get_name =
      reinterpret_cast<GetName>(dlsym(driver, "cuDeviceGetName"));
  int device = 0;
  char name[256] = {};
  if (get_device == nullptr || get_name == nullptr ||
      get_device(&device, index) != 0 ||
      get_name(name, sizeof(name) - 1, device) != 0) {
    return "";
  }
  return name;
}

}  // namespace

absl::StatusOr<c10::Device> OpenDevice(absl::string_view name) {
  if (name == "cpu") return c10::Device(c10::kCPU);
  absl::string_view rest = name;
  int index = 0;
  if (!absl::ConsumePrefix(&rest, "cuda") ||
      (!rest.empty() && (!absl::ConsumePrefix(&rest, ":") ||
                         !absl::SimpleAtoi(rest, &index) || index < 0))) {
    return absl::InvalidArgumentError(
        absl::StrCat("device is \"", name, "\"; it may be cpu or cuda:N"));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(const int count, CountCudaDevices());
  if (index >= count) {
    return absl::FailedPreconditionError(absl::StrCat(
        "device is \"", name, "\", but there are ", count, " CUDA devices"));
  }
  PIPESTAGE_RETURN_IF_ERROR(CallTorch("starting CUDA", [] {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    return absl::OkStatus();
  }));
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
}

DeviceScope::DeviceScope(c10::Device device)
    : guard_(device.is_cuda() ? std::optional<c10::Device>(device)
                              : std::nullopt) {
  at::internal::lazy_init_num_threads();
}

std::string AutomaticDevice(int num_gpus, int index, int workers_on_host) {
  if (num_gpus == 0 || workers_on_host > num_gpus) return "cpu";
  return absl::StrCat("cuda:", std::max(index, 0) % num_gpus);
}

int CountGpus() { return CountCudaDevices().value_or(0); }

void EndProcessIfLost(c10::Device device, const absl::Status& error) {
  if (!device.is_cuda()) return;
  const absl::Status probe = CallTorch("a kernel", [&] {
    (void)at::ones({1}, at::TensorOptions().device(device)).item<float>();
    return absl::OkStatus();
  });
  if (probe.ok() || absl::IsResourceExhausted(probe)) return;
  PIPESTAGE_LOG_ERROR(
      "{} cannot be used any more; this process ends, to be started again. "
      "First error: {}; now: {}",
      device.str(), error.ToString(), probe.ToString());
  std::_Exit(1);
}

std::string DescribeDevice(c10::Device device) {
  if (!device.is_cuda()) return "cpu";
  const std::string name = CudaDeviceName(device.index());
  return name.empty() ? device.str() : absl::StrCat(device.str(), " ", name);
}

}  // namespace pipestage
