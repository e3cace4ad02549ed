#include "worker/torch/torch_stage.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "c10/core/InferenceMode.h"
#include "worker/torch/torch_device.h"
#include "worker/torch/torch_errors.h"

namespace pipestage {

absl::StatusOr<std::vector<StageTensor>> TorchStage::Forward(
    absl::Span<const StageTensor> inputs) {
  auto outputs = CallTorch("the stage", [&] { return ForwardOrThrow(inputs); });
  if (!outputs.ok()) EndProcessIfLost(device_, outputs.status());
  return outputs;
}

absl::StatusOr<std::vector<StageTensor>> TorchStage::ForwardOrThrow(
    absl::Span<const StageTensor> inputs) {
  const c10::InferenceMode inference_mode;
  const DeviceScope device_scope(device_);
  std::vector<at::Tensor> tensors;
  StorageSet taken(&program_->state());
  for (const StageTensor& input : inputs) {
    tensors.push_back(ToTorch(input, device_));
    taken.Add(tensors.back());
  }
  PIPESTAGE_ASSIGN_OR_RETURN(const std::vector<at::Tensor> results,
                             program_->Run(tensors));
  std::vector<StageTensor> outputs;
  for (const at::Tensor& result : results) {
    absl::StatusOr<at::Tensor> output = Canonicalize(result, taken);
    if (!output.ok()) {
      return absl::AbortedError(absl::StrCat("output ", outputs.size(), ": ",
                                             output.status().message()));
    }
    // A program may compute on the host what the next stage needs on the
    // device.
    outputs.push_back(FromTorch(output->to(device_)));
  }
  return outputs;
}

}  // namespace pipestage
