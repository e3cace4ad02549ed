#ifndef PIPESTAGE_WORKER_STAGE_TENSOR_H_
#define PIPESTAGE_WORKER_STAGE_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/host_tensor.h"

namespace pipestage {

// Where a tensor's bytes are. A worker has one device; host memory is always
// there.
enum class DeviceKind { kHost, kCuda };

// A dense, contiguous tensor between stages, in host or device memory. Copies
// share the bytes; what owns them (a LibTorch storage, a receive buffer, a
// message from the coordinator) is hidden in the buffer.
struct StageTensor {
  DType dtype = DType::kFloat32;
  Shape shape;
  Buffer data;  // exactly NumBytes(dtype, shape)
  DeviceKind device = DeviceKind::kHost;

  static StageTensor FromHost(const HostTensor& tensor) {
    return {tensor.dtype, tensor.shape, tensor.data, DeviceKind::kHost};
  }
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_STAGE_TENSOR_H_
