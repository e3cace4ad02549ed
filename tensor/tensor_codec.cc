#include "tensor/tensor_codec.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

absl::Status Malformed(absl::string_view what, absl::string_view problem) {
  return WithReason(
      absl::InvalidArgumentError(absl::StrCat(what, ": ", problem)),
      reason::kMalformedTensor);
}

// Dtype, shape and the bytes they take, of a Tensor or a TensorSpec.
struct Declaration {
  DType dtype;
  Shape shape;
  int64_t bytes;
};

template <typename Message>
absl::StatusOr<Declaration> ReadDeclaration(absl::string_view what,
                                            const Message& message) {
  const absl::StatusOr<DType> dtype = DTypeFromProto(message.dtype());
  if (!dtype.ok()) return Malformed(what, dtype.status().message());
  // Before the shape is copied: it may have a million dimensions.
  const absl::Span<const int64_t> shape(message.shape().data(),
                                        message.shape_size());
  const absl::StatusOr<int64_t> bytes = NumBytes(*dtype, shape);
  if (!bytes.ok()) return Malformed(what, bytes.status().message());
  return Declaration{*dtype, Shape(shape.begin(), shape.end()), *bytes};
}

absl::StatusOr<Declaration> ReadTensor(absl::string_view what,
                                       const v1::Tensor& tensor) {
  PIPESTAGE_ASSIGN_OR_RETURN(Declaration declared,
                             ReadDeclaration(what, tensor));
  const std::string& data = tensor.data();
  if (static_cast<int64_t>(data.size()) != declared.bytes) {
    return Malformed(
        what, absl::StrCat("has ", data.size(), " bytes of data; ",
                           Describe(declared.dtype, declared.shape), " takes ",
                           declared.bytes));
  }
  // Programs read a bool's byte as one bit: any other value is undefined there.
  if (declared.dtype == DType::kBool &&
      std::any_of(data.begin(), data.end(),
                  [](char c) { return c != 0 && c != 1; })) {
    return Malformed(what, "has a bool that is neither 0 nor 1");
  }
  return declared;
}

}  // namespace

absl::Status ValidateTensor(absl::string_view what, const v1::Tensor& tensor) {
  return ReadTensor(what, tensor).status();
}

absl::Status ValidateSpec(absl::string_view what, const v1::TensorSpec& spec) {
  return ReadDeclaration(what, spec).status();
}

absl::StatusOr<HostTensor> BorrowTensor(absl::string_view what,
                                        const v1::Tensor& tensor,
                                        std::shared_ptr<const void> owner) {
  PIPESTAGE_ASSIGN_OR_RETURN(Declaration declared, ReadTensor(what, tensor));
  // Only whoever fills a buffer writes to it, and this one is filled.
  char* data = const_cast<char*>(tensor.data().data());
  return HostTensor{declared.dtype, std::move(declared.shape),
                    Buffer(std::move(owner), data, tensor.data().size())};
}

absl::StatusOr<HostTensor> DecodeTensor(absl::string_view what,
                                        const v1::Tensor& tensor) {
  PIPESTAGE_ASSIGN_OR_RETURN(Declaration declared, ReadTensor(what, tensor));
  return HostTensor{declared.dtype, std::move(declared.shape),
                    Buffer::CopyOf(tensor.data().data(), tensor.data().size())};
}

v1::Tensor EncodeTensor(const HostTensor& tensor) {
  v1::Tensor message;
  message.set_dtype(ToProto(tensor.dtype));
  message.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
  if (!tensor.data.empty()) {
    message.set_data(tensor.data.data(), tensor.data.size());
  }
  return message;
}

v1::TensorSpec EncodeSpec(DType dtype, absl::Span<const int64_t> shape) {
  v1::TensorSpec spec;
  spec.set_dtype(ToProto(dtype));
  spec.mutable_shape()->Assign(shape.begin(), shape.end());
  return spec;
}

}  // namespace pipestage
