#ifndef PIPESTAGE_WORKER_TORCH_LOSS_TERMS_H_
#define PIPESTAGE_WORKER_TORCH_LOSS_TERMS_H_

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/stage.h"

namespace pipestage {

// The terms of a microbatch's loss. `weights` is undefined if each counts once.
struct LossTerms {
  at::Tensor losses;   // float32 or float64, on the host, contiguous
  at::Tensor weights;  // int64, on the host, contiguous, of the same shape
  int row_axis = 0;    // the axis of `losses` that is the microbatch's rows
};

// Functions that may throw what LibTorch throws.

// Cross entropy of [..., classes] logits with integer targets [...]; targets
// equal to `ignore_index` have weight 0. Aborted for shapes that do not fit or,
// naming it, a target that is no class.
absl::StatusOr<LossTerms> CrossEntropyTerms(const at::Tensor& logits,
                                            const at::Tensor& targets,
                                            int64_t ignore_index);

// (prediction - target)^2 of every element; both have one shape.
absl::StatusOr<LossTerms> SquaredErrorTerms(const at::Tensor& prediction,
                                            const at::Tensor& target);

// What a loss program returned: losses [rows, ...], optionally their weights.
absl::StatusOr<LossTerms> ProgramTerms(const std::vector<at::Tensor>& results,
                                       int64_t rows);

// Adds the terms up; row by row too, if `want_rows`.
absl::StatusOr<MicrobatchLossValue> SumTerms(const LossTerms& terms,
                                             int64_t rows, bool want_rows);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_LOSS_TERMS_H_
