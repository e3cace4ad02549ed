#ifndef PIPESTAGE_WORKER_TORCH_TORCH_TENSOR_H_
#define PIPESTAGE_WORKER_TORCH_TORCH_TENSOR_H_

#include <optional>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensor/dtype.h"
#include "worker/stage_tensor.h"

namespace pipestage {

// Between StageTensor and at::Tensor, without copies. Functions that return a
// tensor may throw what LibTorch throws: call them within CallTorch.

c10::ScalarType ToScalarType(DType dtype);
// nullopt for types that do not cross a stage boundary: complex, quantized ...
std::optional<DType> ToDType(c10::ScalarType type);

// A tensor over the same bytes, on `device`, which it keeps alive. Copied if
// the bytes lie elsewhere or are not aligned to 64.
at::Tensor ToTorch(const StageTensor& tensor, c10::Device device);

// The same bytes again. `tensor` must be contiguous, as Canonicalize leaves it.
StageTensor FromTorch(const at::Tensor& tensor);

// Storages that somebody else may read later: inputs, weights, other outputs.
class StorageSet {
 public:
  // Contains what `base` contains, which outlives it.
  explicit StorageSet(const StorageSet* base = nullptr) : base_(base) {}

  void Add(const at::Tensor& tensor);
  bool Contains(const at::Tensor& tensor) const;

 private:
  const StorageSet* base_;
  absl::flat_hash_set<const void*> storages_;
};

// What may leave a stage: dense, contiguous, of an admitted dtype, without lazy
// signs or conjugation, and with its bytes to itself: copied if it shares
// storage with `taken` or is a view of more than itself. Adds the result to
// `taken`. Aborted for sparse or quantized tensors and other dtypes.
absl::StatusOr<at::Tensor> Canonicalize(const at::Tensor& tensor,
                                        StorageSet& taken);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_TORCH_TENSOR_H_
