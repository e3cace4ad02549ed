#ifndef PIPESTAGE_TENSOR_SPLIT_MERGE_H_
#define PIPESTAGE_TENSOR_SPLIT_MERGE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensor/buffer.h"
#include "tensor/host_tensor.h"

namespace pipestage {

// Rows [first, first + count) of `tensor` along `axis`, contiguous. Along axis
// 0 it shares the tensor's bytes; along another axis it is a strided copy.
// InvalidArgument if the axis or the range does not lie within.
absl::StatusOr<HostTensor> SliceRows(const HostTensor& tensor, int axis,
                                     int64_t first, int64_t count);

// Writes `part`, contiguous, as rows [first, ...) along `axis` of `whole`,
// whose shape agrees with part's on every other axis: the inverse of SliceRows.
// `whole` must have its bytes to itself. InvalidArgument if it does not fit.
absl::Status WriteRows(const HostTensor& part, int axis, int64_t first,
                       HostTensor& whole);

// Joins parts along `axis`. InvalidArgument if there is none, or if dtypes or
// other axes differ (the message names the part and both shapes).
absl::StatusOr<HostTensor> Concatenate(absl::Span<const HostTensor> parts,
                                       int axis);

}  // namespace pipestage

#endif  // PIPESTAGE_TENSOR_SPLIT_MERGE_H_
