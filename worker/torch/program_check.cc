#include "worker/torch/program_check.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

absl::Status Mismatch(const std::string& what, absl::string_view contract,
                      absl::string_view program) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, " is ", contract, " in pipeline.json, but ", program,
                   " in the program"));
}

// The only value that a size may have; nullopt if there are several.
std::optional<int64_t> OnlyValue(const PackageContract& package,
                                 const SizeExpression& size) {
  if (size.constant()) return size.constant();
  if (!size.name()) return std::nullopt;
  const auto range = package.sizes.find(*size.name());
  if (range == package.sizes.end() || range->second.min != range->second.max) {
    return std::nullopt;
  }
  return range->second.min;
}

// An expression such as "seq-2" may have one value although it is no plain
// name.
bool MayHaveOneValue(const SizeExpression& size) {
  return !size.constant() && !size.name();
}

absl::Status CheckSize(const PackageContract& package, const std::string& what,
                       const SizeExpression& size,
                       std::optional<int64_t> program) {
  if (size.is_data_dependent()) return absl::OkStatus();
  const std::optional<int64_t> only = OnlyValue(package, size);
  if (!program || only == program || MayHaveOneValue(size)) {
    return absl::OkStatus();
  }
  return Mismatch(what, size.text(), absl::StrCat("always ", *program));
}

absl::Status CheckTensor(const PackageContract& package,
                         const std::string& what,
                         const TensorContract& contract,
                         const ProgramTensor& program) {
  if (program.dtype != contract.dtype) {
    return Mismatch(what, DTypeName(contract.dtype),
                    program.dtype ? DTypeName(*program.dtype)
                                  : "of a dtype that may not leave a stage");
  }
  if (program.sizes.size() != contract.shape.size()) {
    return Mismatch(
        what, absl::StrCat("a tensor of ", contract.shape.size(), " axes"),
        absl::StrCat("one of ", program.sizes.size()));
  }
  for (size_t axis = 0; axis < contract.shape.size(); ++axis) {
    PIPESTAGE_RETURN_IF_ERROR(
        CheckSize(package, absl::StrCat("axis ", axis, " of ", what),
                  contract.shape[axis], program.sizes[axis]));
  }
  return absl::OkStatus();
}

absl::Status CheckTensors(const PackageContract& package,
                          const std::string& kind,
                          absl::Span<const TensorContract> contracts,
                          absl::Span<const ProgramTensor> programs) {
  if (contracts.size() != programs.size()) {
    return Mismatch(absl::StrCat("the number of ", kind, "s"),
                    absl::StrCat(contracts.size()),
                    absl::StrCat(programs.size()));
  }
  for (size_t i = 0; i < contracts.size(); ++i) {
    PIPESTAGE_RETURN_IF_ERROR(
        CheckTensor(package, absl::StrCat(kind, " ", contracts[i].name),
                    contracts[i], programs[i]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckStageProgram(const PackageContract& package,
                               const StageContract& stage,
                               const ProgramSignature& signature) {
  std::vector<TensorContract> inputs = stage.inputs;
  for (const std::string& keyword : stage.keyword_inputs) {
    const std::optional<int> index = package.InputIndex(keyword);
    if (!index) {
      return absl::FailedPreconditionError(
          absl::StrCat("keyword ", keyword, " is no input of the model"));
    }
    inputs.push_back(package.inputs[*index]);
  }
  PIPESTAGE_RETURN_IF_ERROR(
      CheckTensors(package, "input", inputs, signature.inputs));
  return CheckTensors(package, "output", stage.outputs, signature.outputs);
}

}  // namespace pipestage
