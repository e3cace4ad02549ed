#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "package/contract_rules.h"

namespace pipestage {
namespace {

using Names = std::set<std::string>;

// A named size has its value where it is the whole size of an axis.
void CollectBound(absl::Span<const TensorContract> tensors, Names& bound) {
  for (const TensorContract& tensor : tensors) {
    for (const SizeExpression& size : tensor.shape) {
      if (const auto name = size.name()) bound.insert(*name);
    }
  }
}

absl::Status CheckSize(const std::string& place, const SizeExpression& size,
                       const Names& bound, absl::string_view binders,
                       bool may_be_unknown) {
  if (size.is_data_dependent()) {
    if (may_be_unknown) return absl::OkStatus();
    return ContractError(place,
                         "\"?\" is allowed in the outputs of the model alone");
  }
  const std::vector<std::string> names = size.Names();
  for (const std::string& name : names) {
    if (bound.count(name) != 0) continue;
    return ContractError(
        place,
        absl::StrCat("\"", name, "\" is not the whole size of an axis of ",
                     binders));
  }
  if (!names.empty()) return absl::OkStatus();
  const absl::Status constant = size.Evaluate(Sizes()).status();
  if (constant.ok()) return absl::OkStatus();
  return ContractError(place, constant.message());
}

absl::Status CheckTensors(const std::string& list,
                          absl::Span<const TensorContract> tensors,
                          const Names& bound, absl::string_view binders,
                          bool may_be_unknown) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (size_t axis = 0; axis < tensors[i].shape.size(); ++axis) {
      PIPESTAGE_RETURN_IF_ERROR(
          CheckSize(absl::StrCat(list, "[", i, "].shape[", axis, "]"),
                    tensors[i].shape[axis], bound, binders, may_be_unknown));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSizeRules(const PackageContract& contract) {
  // What a stage computes with is known without targets, which not every call
  // brings.
  constexpr absl::string_view kInputs = "any input";
  constexpr absl::string_view kInputsAndTargets = "any input or target";
  Names bound;
  CollectBound(contract.inputs, bound);
  PIPESTAGE_RETURN_IF_ERROR(
      CheckTensors("inputs", contract.inputs, bound, kInputs, false));
  PIPESTAGE_RETURN_IF_ERROR(
      CheckTensors("outputs", contract.outputs, bound, kInputs, true));
  for (size_t s = 0; s < contract.stages.size(); ++s) {
    const StageContract& stage = contract.stages[s];
    const std::string place = absl::StrCat("stages[", s, "]");
    const bool last = s + 1 == contract.stages.size();
    PIPESTAGE_RETURN_IF_ERROR(CheckTensors(
        absl::StrCat(place, ".inputs"), stage.inputs, bound, kInputs, false));
    PIPESTAGE_RETURN_IF_ERROR(CheckTensors(
        absl::StrCat(place, ".outputs"), stage.outputs, bound, kInputs, last));
  }
  CollectBound(contract.targets, bound);
  PIPESTAGE_RETURN_IF_ERROR(CheckTensors("targets", contract.targets, bound,
                                         kInputsAndTargets, false));
  for (const auto& [name, range] : contract.sizes) {
    if (bound.count(name) != 0) continue;
    return ContractError(
        absl::StrCat("sizes.", name),
        absl::StrCat("\"", name, "\" is not the whole size of an axis of ",
                     kInputsAndTargets));
  }
  return absl::OkStatus();
}

}  // namespace pipestage
