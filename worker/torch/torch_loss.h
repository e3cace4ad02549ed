#ifndef PIPESTAGE_WORKER_TORCH_TORCH_LOSS_H_
#define PIPESTAGE_WORKER_TORCH_TORCH_LOSS_H_

#include <memory>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "package/contract.h"
#include "worker/stage.h"
#include "worker/torch/stage_program.h"

namespace pipestage {

// The loss of a package, which must have one. `program` is set for a loss of
// kind program, and null otherwise.
//
// Elements are computed by LibTorch: of float16 and bfloat16 logits in float32.
// Their sum is exact, so it does not depend on how rows were grouped.
//
// FailedPrecondition if the contract names an output or target that is not
// there.
absl::StatusOr<std::unique_ptr<LossFunction>> MakeTorchLoss(
    const PackageContract& contract, std::unique_ptr<StageProgram> program,
    c10::Device device);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_TORCH_LOSS_H_
