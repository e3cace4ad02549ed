#ifndef PIPESTAGE_WORKER_TORCH_TORCH_STAGE_H_
#define PIPESTAGE_WORKER_TORCH_TORCH_STAGE_H_

#include <memory>
#include <vector>

#include "worker/stage.h"
#include "worker/torch/stage_program.h"

namespace pipestage {

// A stage over a program. Each Forward is in inference mode, whatever thread
// calls.
class TorchStage : public Stage {
 public:
  TorchStage(std::unique_ptr<StageProgram> program, c10::Device device)
      : program_(std::move(program)), device_(device) {}

  absl::StatusOr<std::vector<StageTensor>> Forward(
      absl::Span<const StageTensor> inputs) override;
  int64_t weight_bytes() const override { return program_->weight_bytes(); }

 private:
  absl::StatusOr<std::vector<StageTensor>> ForwardOrThrow(
      absl::Span<const StageTensor> inputs);

  const std::unique_ptr<StageProgram> program_;
  const c10::Device device_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_TORCH_STAGE_H_
