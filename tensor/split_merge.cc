#include "tensor/split_merge.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

// A tensor as rows along one axis: `outer` blocks of `rows` times `row_bytes`.
struct Layout {
  int64_t outer = 1;
  int64_t rows = 0;
  int64_t row_bytes = 0;  // of one row within one block
};

absl::StatusOr<Layout> LayoutAlong(const HostTensor& tensor, int axis) {
  if (axis < 0 || axis >= tensor.rank()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "axis ", axis, " is not one of ", ShapeToString(tensor.shape)));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(const int64_t bytes,
                             NumBytes(tensor.dtype, tensor.shape));
  if (static_cast<int64_t>(tensor.data.size()) != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(tensor.dtype, tensor.shape), " has ",
                     tensor.data.size(), " bytes; ", bytes, " belong to it"));
  }
  Layout layout;
  layout.rows = tensor.shape[axis];
  if (bytes == 0) return layout;  // its other axes may not even multiply
  for (int i = 0; i < axis; ++i) layout.outer *= tensor.shape[i];
  layout.row_bytes = bytes / layout.outer / layout.rows;
  return layout;
}

// Whether rows [first, first + count) are among `rows`.
bool Within(int64_t first, int64_t count, int64_t rows) {
  return first >= 0 && count >= 0 && first <= rows && count <= rows - first;
}

absl::Status RangeError(int64_t first, int64_t count, int axis,
                        const Shape& shape) {
  return absl::InvalidArgumentError(
      absl::StrCat(count, " rows from ", first, " do not lie within axis ",
                   axis, " of ", ShapeToString(shape)));
}

// Whether the shapes are the same on every axis but one.
bool SameBeside(int axis, const Shape& a, const Shape& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (static_cast<int>(i) != axis && a[i] != b[i]) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<HostTensor> SliceRows(const HostTensor& tensor, int axis,
                                     int64_t first, int64_t count) {
  PIPESTAGE_ASSIGN_OR_RETURN(const Layout layout, LayoutAlong(tensor, axis));
  if (!Within(first, count, layout.rows)) {
    return RangeError(first, count, axis, tensor.shape);
  }
  HostTensor part{tensor.dtype, tensor.shape, Buffer()};
  part.shape[axis] = count;
  const int64_t size = count * layout.row_bytes;
  const int64_t offset = first * layout.row_bytes;
  if (axis == 0) {
    part.data = tensor.data.Slice(offset, size);
    return part;
  }
  part.data = Buffer::Allocate(layout.outer * size);
  if (part.data.empty()) return part;
  const int64_t stride = layout.rows * layout.row_bytes;
  for (int64_t block = 0; block < layout.outer; ++block) {
    std::memcpy(part.data.mutable_data() + block * size,
                tensor.data.data() + block * stride + offset, size);
  }
  return part;
}

absl::Status WriteRows(const HostTensor& part, int axis, int64_t first,
                       HostTensor& whole) {
  PIPESTAGE_ASSIGN_OR_RETURN(const Layout to, LayoutAlong(whole, axis));
  if (part.dtype != whole.dtype || !SameBeside(axis, part.shape, whole.shape)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Describe(part.dtype, part.shape), " is no part along axis ", axis,
        " of ", Describe(whole.dtype, whole.shape)));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(const Layout from, LayoutAlong(part, axis));
  if (!Within(first, from.rows, to.rows)) {
    return RangeError(first, from.rows, axis, whole.shape);
  }
  if (part.data.empty()) return absl::OkStatus();
  const int64_t size = from.rows * to.row_bytes;
  const int64_t stride = to.rows * to.row_bytes;
  std::byte* target = whole.data.mutable_data() + first * to.row_bytes;
  for (int64_t block = 0; block < to.outer; ++block) {
    std::memcpy(target + block * stride, part.data.data() + block * size, size);
  }
  return absl::OkStatus();
}

absl::StatusOr<HostTensor> Concatenate(absl::Span<const HostTensor> parts,
                                       int axis) {
  if (parts.empty()) {
    return absl::InvalidArgumentError("there are no parts to join");
  }
  int64_t rows = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    PIPESTAGE_RETURN_IF_ERROR(LayoutAlong(parts[i], axis).status());
    if (parts[i].dtype != parts[0].dtype ||
        !SameBeside(axis, parts[i].shape, parts[0].shape)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "part ", i, " is ", Describe(parts[i].dtype, parts[i].shape),
          " and cannot be joined along axis ", axis, " to ",
          Describe(parts[0].dtype, parts[0].shape)));
    }
    if (__builtin_add_overflow(rows, parts[i].shape[axis], &rows)) {
      return absl::InvalidArgumentError("the parts have 2^63 rows or more");
    }
  }
  if (parts.size() == 1) return parts[0];
  HostTensor whole{parts[0].dtype, parts[0].shape, Buffer()};
  whole.shape[axis] = rows;
  PIPESTAGE_ASSIGN_OR_RETURN(const int64_t bytes,
                             NumBytes(whole.dtype, whole.shape));
  whole.data = Buffer::Allocate(bytes);
  int64_t first = 0;
  for (const HostTensor& part : parts) {
    PIPESTAGE_RETURN_IF_ERROR(WriteRows(part, axis, first, whole));
    first += part.shape[axis];
  }
  return whole;
}

}  // namespace pipestage
