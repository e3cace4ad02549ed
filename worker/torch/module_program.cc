#include "worker/torch/module_program.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "worker/torch/random_state_scope.h"
#include "worker/torch/torch_errors.h"

namespace pipestage {

ModuleProgram::ModuleProgram(std::string name, StageWeights weights,
                             c10::Device device)
    : name_(std::move(name)), weights_(std::move(weights)), device_(device) {
  for (const auto& [fqn, tensor] : weights_) state_.Add(tensor);
}

absl::StatusOr<std::unique_ptr<ModuleProgram>> ModuleProgram::Load(
    const ModuleRegistry& registry, const std::string& name,
    absl::string_view params_json, StageWeights weights, c10::Device device) {
  PIPESTAGE_ASSIGN_OR_RETURN(const ModuleFactory factory, registry.Find(name));
  const absl::StatusOr<nlohmann::json> params =
      ParseStrictJson(params_json, /*max_depth=*/32);
  if (!params.ok() || !params->is_object()) {
    return absl::FailedPreconditionError(
        absl::StrCat("module ", name, ": its params are no JSON object"));
  }
  std::unique_ptr<ModuleProgram> program(
      new ModuleProgram(name, std::move(weights), device));
  auto module =
      CallTorch(name, [&] { return factory(*params, program->weights_); });
  if (!module.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("module ", name, ": ", module.status().message()));
  }
  program->module_ = *std::move(module);
  return program;
}

absl::StatusOr<std::vector<at::Tensor>> ModuleProgram::Run(
    absl::Span<const at::Tensor> inputs) {
  const std::string what = absl::StrCat("module ", name_);
  absl::StatusOr<std::vector<at::Tensor>> outputs = CallTorch(what, [&] {
    const RandomStateScope random_state(device_);
    return module_->Forward(inputs);
  });
  // What LibTorch threw is Aborted or ResourceExhausted and has the name
  // already.
  const absl::StatusCode code = outputs.status().code();
  if (outputs.ok() || code == absl::StatusCode::kResourceExhausted ||
      absl::StartsWith(outputs.status().message(), what)) {
    return outputs;
  }
  return absl::AbortedError(
      absl::StrCat(what, ": ", outputs.status().message()));
}

}  // namespace pipestage
