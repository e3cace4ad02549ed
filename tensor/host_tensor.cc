#include "tensor/host_tensor.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pipestage {

std::string ShapeToString(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

absl::StatusOr<int64_t> NumElements(absl::Span<const int64_t> shape) {
  if (shape.size() > kMaxTensorDims) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape has ", shape.size(), " dimensions; at most ",
                     kMaxTensorDims, " are allowed"));
  }
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shape ", ShapeToString(shape), " has a negative dimension"));
    }
    empty = empty || size == 0;
  }
  // Nothing overflows where there is nothing: [0, 2^62, 4] is an empty tensor.
  if (empty) return 0;
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(count, size, &count)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shape ", ShapeToString(shape), " has more than 2^63 - 1 elements"));
    }
  }
  return count;
}

absl::StatusOr<int64_t> NumBytes(DType dtype, absl::Span<const int64_t> shape) {
  const absl::StatusOr<int64_t> elements = NumElements(shape);
  if (!elements.ok()) return elements.status();
  int64_t bytes = 0;
  if (__builtin_mul_overflow(
          *elements, static_cast<int64_t>(ElementSize(dtype)), &bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(dtype, shape), " has more than 2^63 - 1 bytes"));
  }
  return bytes;
}

std::string Describe(DType dtype, absl::Span<const int64_t> shape) {
  return absl::StrCat(DTypeName(dtype), " ", ShapeToString(shape));
}

}  // namespace pipestage
