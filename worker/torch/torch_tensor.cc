#include "worker/torch/torch_tensor.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensor/host_tensor.h"

namespace pipestage {
namespace {

c10::Device DeviceOf(const StageTensor& tensor, c10::Device device) {
  return tensor.device == DeviceKind::kHost ? c10::Device(c10::kCPU) : device;
}

// As LibTorch's own tensors are. Matrix products of few rows round otherwise
// when their operands lie otherwise, and where a microbatch lies in the bytes
// that brought it depends on how the batch was cut.
constexpr uintptr_t kAlignment = 64;

bool IsAligned(const StageTensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data.data()) % kAlignment == 0;
}

bool IsViewOfMore(const at::Tensor& tensor) {
  return tensor.storage().nbytes() !=
         static_cast<size_t>(tensor.numel()) * tensor.element_size();
}

}  // namespace

c10::ScalarType ToScalarType(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return c10::ScalarType::Bool;
    case DType::kUint8:
      return c10::ScalarType::Byte;
    case DType::kInt8:
      return c10::ScalarType::Char;
    case DType::kInt16:
      return c10::ScalarType::Short;
    case DType::kInt32:
      return c10::ScalarType::Int;
    case DType::kInt64:
      return c10::ScalarType::Long;
    case DType::kFloat16:
      return c10::ScalarType::Half;
    case DType::kBFloat16:
      return c10::ScalarType::BFloat16;
    case DType::kFloat32:
      return c10::ScalarType::Float;
    case DType::kFloat64:
      return c10::ScalarType::Double;
  }
  return c10::ScalarType::Undefined;
}

std::optional<DType> ToDType(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Bool:
      return DType::kBool;
    case c10::ScalarType::Byte:
      return DType::kUint8;
    case c10::ScalarType::Char:
      return DType::kInt8;
    case c10::ScalarType::Short:
      return DType::kInt16;
    case c10::ScalarType::Int:
      return DType::kInt32;
    case c10::ScalarType::Long:
      return DType::kInt64;
    case c10::ScalarType::Half:
      return DType::kFloat16;
    case c10::ScalarType::BFloat16:
      return DType::kBFloat16;
    case c10::ScalarType::Float:
      return DType::kFloat32;
    case c10::ScalarType::Double:
      return DType::kFloat64;
    default:
      return std::nullopt;
  }
}

at::Tensor ToTorch(const StageTensor& tensor, c10::Device device) {
  const c10::Device from = DeviceOf(tensor, device);
  const at::TensorOptions options =
      at::TensorOptions().dtype(ToScalarType(tensor.dtype)).device(from);
  const at::IntArrayRef sizes(tensor.shape.data(), tensor.shape.size());
  if (tensor.data.empty()) return at::empty(sizes, options.device(device));
  // LibTorch has no read-only tensors; programs that write to one are refused.
  Buffer data = tensor.data;
  void* const bytes = data.mutable_data();
  at::Tensor result = at::from_blob(
      bytes, sizes, [owner = data.owner()](void*) mutable { owner.reset(); },
      options, from);
  if (from != device) return result.to(device);
  return IsAligned(tensor) ? result : result.clone();
}

StageTensor FromTorch(const at::Tensor& tensor) {
  StageTensor result;
  result.dtype = *ToDType(tensor.scalar_type());
  result.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
  result.device = tensor.is_cuda() ? DeviceKind::kCuda : DeviceKind::kHost;
  auto owner = std::make_shared<at::Tensor>(tensor);
  // Not const_data_ptr(): that would leave a lazily cloned tensor lazy.
  void* const bytes = tensor.numel() == 0 ? nullptr : owner->mutable_data_ptr();
  result.data = Buffer(std::move(owner), bytes, tensor.nbytes());
  return result;
}

void StorageSet::Add(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.has_storage()) {
    storages_.insert(tensor.storage().unsafeGetStorageImpl());
  }
}

bool StorageSet::Contains(const at::Tensor& tensor) const {
  if (base_ != nullptr && base_->Contains(tensor)) return true;
  return tensor.defined() && tensor.has_storage() &&
         storages_.contains(tensor.storage().unsafeGetStorageImpl());
}

absl::StatusOr<at::Tensor> Canonicalize(const at::Tensor& tensor,
                                        StorageSet& taken) {
  if (!tensor.defined()) return absl::AbortedError("no tensor was returned");
  if (tensor.layout() != c10::kStrided || !tensor.has_storage()) {
    return absl::AbortedError(
        absl::StrCat("it is ", c10::str(tensor.layout()), ", not dense"));
  }
  if (!ToDType(tensor.scalar_type()).has_value()) {
    return absl::AbortedError(absl::StrCat("its dtype ",
                                           c10::toString(tensor.scalar_type()),
                                           " may not cross a stage boundary"));
  }
  if (tensor.dim() > kMaxTensorDims) {
    return absl::AbortedError(absl::StrCat("it has ", tensor.dim(), " axes"));
  }
  at::Tensor result = tensor;
  if (result.requires_grad()) result = result.detach();
  result = result.resolve_conj().resolve_neg().contiguous();
  if (taken.Contains(result) || IsViewOfMore(result)) {
    result = result.clone(c10::MemoryFormat::Contiguous);
  }
  taken.Add(result);
  return result;
}

}  // namespace pipestage
