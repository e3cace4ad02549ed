#ifndef PIPESTAGE_TENSOR_DTYPE_H_
#define PIPESTAGE_TENSOR_DTYPE_H_

#include <cstddef>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/tensor.pb.h"

namespace pipestage {

// Element types. Values are those of v1::DType, so that mapping is a cast.
enum class DType : int {
  kBool = v1::BOOL,
  kUint8 = v1::UINT8,
  kInt8 = v1::INT8,
  kInt16 = v1::INT16,
  kInt32 = v1::INT32,
  kInt64 = v1::INT64,
  kFloat16 = v1::FLOAT16,
  kBFloat16 = v1::BFLOAT16,
  kFloat32 = v1::FLOAT32,
  kFloat64 = v1::FLOAT64,
};

// Bytes of one element: 1, 2, 4 or 8.
size_t ElementSize(DType dtype);

// PyTorch's names without "torch.": "bool", "uint8", "float32", "bfloat16" ...
absl::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(absl::string_view name);

bool IsFloatingPoint(DType dtype);

v1::DType ToProto(DType dtype);
// InvalidArgument for DTYPE_UNSPECIFIED and numbers this version does not know.
absl::StatusOr<DType> DTypeFromProto(int dtype);

}  // namespace pipestage

#endif  // PIPESTAGE_TENSOR_DTYPE_H_
