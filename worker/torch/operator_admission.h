#ifndef PIPESTAGE_WORKER_TORCH_OPERATOR_ADMISSION_H_
#define PIPESTAGE_WORKER_TORCH_OPERATOR_ADMISSION_H_

#include "ATen/core/dispatch/Dispatcher.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pipestage {

// The operator that torch.export calls `target`, for example
// "torch.ops.aten.add.Tensor", if a program may use it: it is in namespace aten
// or pipestage, LibTorch knows it, it touches nothing but tensors (no files, no
// process state, no replacing of storages), and it checks its arguments as far
// as LibTorch's public operators do (no internal ones that trust their callers,
// no sparse, nested, quantized or library-packed tensors).
//
// FailedPrecondition names the operator and the reason.
absl::StatusOr<c10::OperatorHandle> AdmitOperator(absl::string_view target);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_OPERATOR_ADMISSION_H_
