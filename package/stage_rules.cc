#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "package/contract_rules.h"

namespace pipestage {
namespace {

std::string NamesOf(absl::Span<const TensorContract> tensors) {
  return absl::StrJoin(tensors, ", ",
                       [](std::string* out, const TensorContract& tensor) {
                         absl::StrAppend(out, "\"", tensor.name, "\"");
                       });
}

std::string ShapeText(const TensorContract& tensor) {
  return absl::StrCat(
      "[",
      absl::StrJoin(tensor.shape, ", ",
                    [](std::string* out, const SizeExpression& size) {
                      absl::StrAppend(out, size.text());
                    }),
      "]");
}

std::string AxisText(const TensorContract& tensor) {
  return tensor.axis ? absl::StrCat(*tensor.axis) : "null";
}

// That `tensor` is what `want`, described by `whose`, says it is.
absl::Status CheckSame(const std::string& place, const TensorContract& tensor,
                       const TensorContract& want, absl::string_view whose) {
  if (tensor.dtype != want.dtype) {
    return ContractError(absl::StrCat(place, ".dtype"),
                         absl::StrCat("is ", DTypeName(tensor.dtype), "; ",
                                      whose, " is ", DTypeName(want.dtype)));
  }
  if (tensor.shape != want.shape) {
    return ContractError(absl::StrCat(place, ".shape"),
                         absl::StrCat("is ", ShapeText(tensor), "; ", whose,
                                      " is ", ShapeText(want)));
  }
  return absl::OkStatus();
}

// The axis of a stage's tensor may be left open, but not contradict the
// model's.
absl::Status CheckSameAxis(const std::string& place,
                           const TensorContract& tensor,
                           const TensorContract& want,
                           absl::string_view whose) {
  if (!tensor.axis || tensor.axis == want.axis) return absl::OkStatus();
  return ContractError(absl::StrCat(place, ".axis"),
                       absl::StrCat("is ", AxisText(tensor), "; ", whose,
                                    " has ", AxisText(want)));
}

absl::Status CheckFirstInputs(const PackageContract& contract) {
  const std::vector<TensorContract>& inputs = contract.stages[0].inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string place = Indexed("stages[0].inputs", i);
    const std::optional<int> index = contract.InputIndex(inputs[i].name);
    if (!index) {
      return ContractError(absl::StrCat(place, ".name"),
                           absl::StrCat(Quoted(inputs[i].name),
                                        " is no input of the model, which has ",
                                        NamesOf(contract.inputs)));
    }
    const TensorContract& want = contract.inputs[*index];
    const std::string whose = Indexed("inputs", *index);
    PIPESTAGE_RETURN_IF_ERROR(CheckSame(place, inputs[i], want, whose));
    PIPESTAGE_RETURN_IF_ERROR(CheckSameAxis(place, inputs[i], want, whose));
  }
  return absl::OkStatus();
}

absl::Status CheckCount(const std::string& place, size_t count,
                        const std::string& whose, size_t want) {
  if (count == want) return absl::OkStatus();
  return ContractError(
      place, absl::StrCat("has ", count, " tensors; ", whose, " has ", want));
}

absl::Status CheckBoundary(const PackageContract& contract, size_t s) {
  const std::vector<TensorContract>& inputs = contract.stages[s].inputs;
  const std::vector<TensorContract>& before = contract.stages[s - 1].outputs;
  const std::string place = absl::StrCat(Indexed("stages", s), ".inputs");
  const std::string whose = absl::StrCat(Indexed("stages", s - 1), ".outputs");
  PIPESTAGE_RETURN_IF_ERROR(
      CheckCount(place, inputs.size(), whose, before.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    PIPESTAGE_RETURN_IF_ERROR(
        CheckSame(Indexed(place, i), inputs[i], before[i], Indexed(whose, i)));
  }
  return absl::OkStatus();
}

absl::Status CheckLastOutputs(const PackageContract& contract) {
  const std::vector<TensorContract>& outputs = contract.stages.back().outputs;
  const std::string list =
      absl::StrCat(Indexed("stages", contract.stages.size() - 1), ".outputs");
  PIPESTAGE_RETURN_IF_ERROR(CheckCount(
      list, outputs.size(), "the model's outputs", contract.outputs.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string place = Indexed(list, i);
    const std::string whose = Indexed("outputs", i);
    const TensorContract& want = contract.outputs[i];
    if (outputs[i].name != want.name) {
      return ContractError(absl::StrCat(place, ".name"),
                           absl::StrCat("is ", Quoted(outputs[i].name), "; ",
                                        whose, " is ", Quoted(want.name)));
    }
    PIPESTAGE_RETURN_IF_ERROR(CheckSame(place, outputs[i], want, whose));
    PIPESTAGE_RETURN_IF_ERROR(CheckSameAxis(place, outputs[i], want, whose));
  }
  return absl::OkStatus();
}

absl::Status CheckKeywords(const PackageContract& contract, size_t s) {
  const StageContract& stage = contract.stages[s];
  std::set<absl::string_view> taken;
  for (const TensorContract& input : stage.inputs) taken.insert(input.name);
  for (size_t i = 0; i < stage.keyword_inputs.size(); ++i) {
    const std::string& name = stage.keyword_inputs[i];
    const std::string place =
        Indexed(absl::StrCat(Indexed("stages", s), ".keyword_inputs"), i);
    if (!contract.InputIndex(name)) {
      return ContractError(
          place,
          absl::StrCat(Quoted(name), " is no input of the model, which has ",
                       NamesOf(contract.inputs)));
    }
    if (!taken.insert(name).second) {
      return ContractError(
          place,
          absl::StrCat(Quoted(name), " is an input of this stage twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckInputsAreUsed(const PackageContract& contract) {
  std::set<absl::string_view> used;
  for (const TensorContract& input : contract.stages[0].inputs) {
    used.insert(input.name);
  }
  for (const StageContract& stage : contract.stages) {
    used.insert(stage.keyword_inputs.begin(), stage.keyword_inputs.end());
  }
  for (size_t i = 0; i < contract.inputs.size(); ++i) {
    if (used.count(contract.inputs[i].name) != 0) continue;
    return ContractError(
        Indexed("inputs", i),
        absl::StrCat("no stage takes ", Quoted(contract.inputs[i].name)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckStageRules(const PackageContract& contract) {
  if (contract.stages.empty()) return ContractError("stages", "is empty");
  for (size_t s = 0; s < contract.stages.size(); ++s) {
    const std::string place = Indexed("stages", s);
    const StageContract& stage = contract.stages[s];
    if (stage.outputs.empty()) {
      return ContractError(absl::StrCat(place, ".outputs"), "is empty");
    }
    PIPESTAGE_RETURN_IF_ERROR(
        CheckNamesDiffer(absl::StrCat(place, ".inputs"), stage.inputs));
    PIPESTAGE_RETURN_IF_ERROR(
        CheckNamesDiffer(absl::StrCat(place, ".outputs"), stage.outputs));
    PIPESTAGE_RETURN_IF_ERROR(s == 0 ? CheckFirstInputs(contract)
                                     : CheckBoundary(contract, s));
    PIPESTAGE_RETURN_IF_ERROR(CheckKeywords(contract, s));
  }
  PIPESTAGE_RETURN_IF_ERROR(CheckLastOutputs(contract));
  return CheckInputsAreUsed(contract);
}

}  // namespace pipestage
