#ifndef PIPESTAGE_WORKER_TRANSPORT_REDUCE_SUM_H_
#define PIPESTAGE_WORKER_TRANSPORT_REDUCE_SUM_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensor/dtype.h"

namespace pipestage {

// out[i] = inputs[0][i] + inputs[1][i] + ..., for `count` elements in host
// memory.
//
// Terms are added in the order of `inputs`, so every rank that sums the same
// inputs gets the same bits. 16-bit floats are summed in float32 and rounded
// once, to nearest even; integers wrap. `out` may be one of the inputs, but
// must not overlap one in part. Errors: InvalidArgument for kBool, which has no
// sum, and without inputs.
absl::Status SumElements(DType dtype, absl::Span<const void* const> inputs,
                         size_t count, void* out);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_REDUCE_SUM_H_
