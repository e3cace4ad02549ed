#include "package/contract_rules.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

std::string AxisText(const TensorContract& tensor) {
  return tensor.axis ? absl::StrCat(*tensor.axis) : "null";
}

// Inputs and targets: the split axis is rows, and nothing else has to do with
// it.
absl::Status CheckSplit(const std::string& place,
                        const TensorContract& tensor) {
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    const SizeExpression& size = tensor.shape[i];
    const bool split = tensor.axis == static_cast<int>(i);
    if (split && size.name() != kRowsName) {
      return ContractError(
          absl::StrCat(place, ".axis"),
          absl::StrCat("axis ", i,
                       " is split into microbatches, so its size is "
                       "\"rows\"; it is \"",
                       size.text(), "\""));
    }
    if (!split && size.Mentions(kRowsName)) {
      return ContractError(
          absl::StrCat(Indexed(absl::StrCat(place, ".shape"), i)),
          absl::StrCat("\"", size.text(), "\" mentions \"rows\", but axis is ",
                       AxisText(tensor)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(const PackageContract& contract) {
  bool any_split = false;
  for (size_t i = 0; i < contract.inputs.size(); ++i) {
    PIPESTAGE_RETURN_IF_ERROR(
        CheckSplit(Indexed("inputs", i), contract.inputs[i]));
    any_split = any_split || contract.inputs[i].axis.has_value();
  }
  for (size_t i = 0; i < contract.targets.size(); ++i) {
    PIPESTAGE_RETURN_IF_ERROR(
        CheckSplit(Indexed("targets", i), contract.targets[i]));
  }
  if (any_split) return absl::OkStatus();
  return ContractError("inputs", "none has an axis that is split");
}

// An output of which each microbatch gives one.
absl::Status CheckStacked(const std::string& place,
                          const TensorContract& output) {
  if (output.shape.size() >= kMaxTensorDims) {
    return ContractError(
        absl::StrCat(place, ".shape"),
        absl::StrCat("has ", output.shape.size(),
                     " axes; stacking microbatches adds one, and at most ",
                     kMaxTensorDims, " are allowed"));
  }
  for (size_t i = 0; i < output.shape.size(); ++i) {
    if (!output.shape[i].Mentions(kRowsName)) continue;
    return ContractError(
        Indexed(absl::StrCat(place, ".shape"), i),
        absl::StrCat("\"", output.shape[i].text(),
                     "\" mentions \"rows\", but axis is null: microbatches of "
                     "different rows cannot be stacked"));
  }
  return absl::OkStatus();
}

absl::Status CheckOutput(const std::string& place,
                         const TensorContract& output) {
  if (!output.axis) return CheckStacked(place, output);
  for (size_t i = 0; i < output.shape.size(); ++i) {
    const SizeExpression& size = output.shape[i];
    const bool joined = output.axis == static_cast<int>(i);
    if (joined && !size.Mentions(kRowsName) && !size.is_data_dependent()) {
      return ContractError(
          absl::StrCat(place, ".axis"),
          absl::StrCat("microbatches are joined along axis ", i,
                       ", so its size mentions \"rows\" or is \"?\"; it is \"",
                       size.text(), "\""));
    }
    if (!joined && size.Mentions(kRowsName)) {
      return ContractError(
          Indexed(absl::StrCat(place, ".shape"), i),
          absl::StrCat(
              "\"", size.text(),
              "\" mentions \"rows\", but microbatches are joined along "
              "axis ",
              *output.axis));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOutputs(const PackageContract& contract) {
  if (contract.outputs.empty()) return ContractError("outputs", "is empty");
  for (size_t i = 0; i < contract.outputs.size(); ++i) {
    const TensorContract& output = contract.outputs[i];
    PIPESTAGE_RETURN_IF_ERROR(CheckOutput(Indexed("outputs", i), output));
    // A loss program names outputs and targets in one list.
    if (contract.TargetIndex(output.name)) {
      return ContractError(
          absl::StrCat(Indexed("outputs", i), ".name"),
          absl::StrCat(Quoted(output.name), " is a target as well"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string Indexed(absl::string_view list, size_t index) {
  return absl::StrCat(list, "[", index, "]");
}

std::string Quoted(absl::string_view name) {
  return absl::StrCat("\"", name, "\"");
}

absl::Status CheckNamesDiffer(absl::string_view list,
                              absl::Span<const TensorContract> tensors) {
  std::set<absl::string_view> seen;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (seen.insert(tensors[i].name).second) continue;
    return ContractError(
        absl::StrCat(Indexed(list, i), ".name"),
        absl::StrCat(Quoted(tensors[i].name), " is declared twice"));
  }
  return absl::OkStatus();
}

absl::Status ContractError(absl::string_view place, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", problem));
}

absl::Status CheckTensorRules(const PackageContract& contract) {
  PIPESTAGE_RETURN_IF_ERROR(CheckNamesDiffer("inputs", contract.inputs));
  PIPESTAGE_RETURN_IF_ERROR(CheckNamesDiffer("targets", contract.targets));
  PIPESTAGE_RETURN_IF_ERROR(CheckNamesDiffer("outputs", contract.outputs));
  PIPESTAGE_RETURN_IF_ERROR(CheckInputs(contract));
  return CheckOutputs(contract);
}

}  // namespace pipestage
