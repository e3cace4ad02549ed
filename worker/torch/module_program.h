#ifndef PIPESTAGE_WORKER_TORCH_MODULE_PROGRAM_H_
#define PIPESTAGE_WORKER_TORCH_MODULE_PROGRAM_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/torch/module_registry.h"
#include "worker/torch/stage_program.h"
#include "worker/torch/stage_weights.h"

namespace pipestage {

// A registered module as a program.
class ModuleProgram : public StageProgram {
 public:
  // `params_json`: a JSON object. FailedPrecondition: not registered, or what
  // the module's factory says.
  static absl::StatusOr<std::unique_ptr<ModuleProgram>> Load(
      const ModuleRegistry& registry, const std::string& name,
      absl::string_view params_json, StageWeights weights, c10::Device device);

  absl::StatusOr<std::vector<at::Tensor>> Run(
      absl::Span<const at::Tensor> inputs) override;
  const ProgramSignature* signature() const override { return nullptr; }
  const StorageSet& state() const override { return state_; }
  int64_t weight_bytes() const override { return WeightBytes(weights_); }

 private:
  ModuleProgram(std::string name, StageWeights weights, c10::Device device);

  const std::string name_;
  const StageWeights weights_;
  const c10::Device device_;
  StorageSet state_;
  std::unique_ptr<TorchModule> module_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_MODULE_PROGRAM_H_
