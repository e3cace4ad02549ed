#ifndef PIPESTAGE_TENSOR_TENSOR_CODEC_H_
#define PIPESTAGE_TENSOR_TENSOR_CODEC_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/tensor.pb.h"
#include "tensor/host_tensor.h"

namespace pipestage {

// Checks a tensor from the wire against its own declaration: dtype known, shape
// sane, bytes exact. Takes no memory of the declared size. Errors are
// InvalidArgument with reason MALFORMED_TENSOR and start with "<what>: ".
absl::Status ValidateTensor(absl::string_view what, const v1::Tensor& tensor);
absl::Status ValidateSpec(absl::string_view what, const v1::TensorSpec& spec);

// A HostTensor over the message's own bytes, without copying. `owner` keeps
// `tensor` (and the message it is part of) alive.
absl::StatusOr<HostTensor> BorrowTensor(absl::string_view what,
                                        const v1::Tensor& tensor,
                                        std::shared_ptr<const void> owner);

// A copy that stands on its own.
absl::StatusOr<HostTensor> DecodeTensor(absl::string_view what,
                                        const v1::Tensor& tensor);
v1::Tensor EncodeTensor(const HostTensor& tensor);

v1::TensorSpec EncodeSpec(DType dtype, absl::Span<const int64_t> shape);

}  // namespace pipestage

#endif  // PIPESTAGE_TENSOR_TENSOR_CODEC_H_
