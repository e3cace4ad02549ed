#ifndef PIPESTAGE_TENSOR_HOST_TENSOR_H_
#define PIPESTAGE_TENSOR_HOST_TENSOR_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace pipestage {

using Shape = absl::InlinedVector<int64_t, 4>;

inline constexpr int kMaxTensorDims = 8;

// "[8,16]"; "[]" for 0-dim.
std::string ShapeToString(absl::Span<const int64_t> shape);

// product(shape) elements and their bytes. InvalidArgument for a negative
// dimension, more than kMaxTensorDims, or a size that overflows int64.
absl::StatusOr<int64_t> NumElements(absl::Span<const int64_t> shape);
absl::StatusOr<int64_t> NumBytes(DType dtype, absl::Span<const int64_t> shape);

// A dense, contiguous, row-major tensor in host memory. Copies share the bytes.
struct HostTensor {
  DType dtype = DType::kFloat32;
  Shape shape;
  Buffer data;  // exactly NumBytes(dtype, shape)

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
};

// "float32 [8,16]".
std::string Describe(DType dtype, absl::Span<const int64_t> shape);

}  // namespace pipestage

#endif  // PIPESTAGE_TENSOR_HOST_TENSOR_H_
