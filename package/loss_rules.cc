#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "package/contract_rules.h"

namespace pipestage {
namespace {

bool IsInteger(DType dtype) {
  return !IsFloatingPoint(dtype) && dtype != DType::kBool;
}

absl::Status CheckCrossEntropy(const TensorContract& prediction,
                               const TensorContract& target) {
  if (prediction.shape.empty()) {
    return ContractError(
        "loss.prediction",
        absl::StrCat("\"", prediction.name, "\" has no axis of classes"));
  }
  if (!IsInteger(target.dtype)) {
    return ContractError(
        "loss.target",
        absl::StrCat("\"", target.name, "\" is ", DTypeName(target.dtype),
                     "; expected an integer dtype"));
  }
  const absl::Span<const SizeExpression> want =
      absl::MakeSpan(prediction.shape).first(prediction.shape.size() - 1);
  if (absl::MakeSpan(target.shape) == want) return absl::OkStatus();
  return ContractError(
      "loss.target",
      absl::StrCat("\"", target.name, "\" has not the shape of \"",
                   prediction.name, "\" less its last axis"));
}

absl::Status CheckMeanSquaredError(const TensorContract& prediction,
                                   const TensorContract& target) {
  if (prediction.shape == target.shape) return absl::OkStatus();
  return ContractError("loss.target", absl::StrCat("\"", target.name,
                                                   "\" has not the shape of \"",
                                                   prediction.name, "\""));
}

absl::Status CheckProgramInputs(const PackageContract& contract) {
  const std::vector<std::string>& inputs = contract.loss->inputs;
  if (inputs.empty()) return ContractError("loss.inputs", "is empty");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (contract.OutputIndex(inputs[i]) || contract.TargetIndex(inputs[i])) {
      continue;
    }
    return ContractError(
        absl::StrCat("loss.inputs[", i, "]"),
        absl::StrCat("\"", inputs[i],
                     "\" is no output or target of the model"));
  }
  return absl::OkStatus();
}

absl::Status CheckFile(const PackageContract& contract,
                       const std::string& place, const std::string& path) {
  if (path.empty() || contract.files.count(path) != 0) return absl::OkStatus();
  return ContractError(place,
                       absl::StrCat("\"", path, "\" is not among \"files\""));
}

}  // namespace

absl::Status CheckLossRules(const PackageContract& contract) {
  if (!contract.loss) return absl::OkStatus();
  const LossContract& loss = *contract.loss;
  if (loss.kind == LossContract::Kind::kProgram) {
    return CheckProgramInputs(contract);
  }
  const std::optional<int> output = contract.OutputIndex(loss.prediction);
  if (!output) {
    return ContractError(
        "loss.prediction",
        absl::StrCat("\"", loss.prediction, "\" is no output of the model"));
  }
  const std::optional<int> target = contract.TargetIndex(loss.target);
  if (!target) {
    return ContractError(
        "loss.target",
        absl::StrCat("\"", loss.target, "\" is no target of the model"));
  }
  const TensorContract& prediction = contract.outputs[*output];
  if (!IsFloatingPoint(prediction.dtype)) {
    return ContractError("loss.prediction",
                         absl::StrCat("\"", prediction.name, "\" is ",
                                      DTypeName(prediction.dtype),
                                      "; expected a floating-point dtype"));
  }
  return loss.kind == LossContract::Kind::kCrossEntropy
             ? CheckCrossEntropy(prediction, contract.targets[*target])
             : CheckMeanSquaredError(prediction, contract.targets[*target]);
}

absl::Status CheckFileRules(const PackageContract& contract) {
  for (size_t s = 0; s < contract.stages.size(); ++s) {
    const StageContract& stage = contract.stages[s];
    const std::string place = absl::StrCat("stages[", s, "]");
    PIPESTAGE_RETURN_IF_ERROR(CheckFile(
        contract, absl::StrCat(place, ".program.file"), stage.program.file));
    PIPESTAGE_RETURN_IF_ERROR(CheckFile(
        contract, absl::StrCat(place, ".weights"), stage.weights_file));
    if (!stage.step_program) continue;
    PIPESTAGE_RETURN_IF_ERROR(
        CheckFile(contract, absl::StrCat(place, ".step_program.file"),
                  stage.step_program->file));
  }
  if (!contract.loss) return absl::OkStatus();
  PIPESTAGE_RETURN_IF_ERROR(
      CheckFile(contract, "loss.program.file", contract.loss->program.file));
  return CheckFile(contract, "loss.weights", contract.loss->weights_file);
}

}  // namespace pipestage
