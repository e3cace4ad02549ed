#include "package/binding.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_info.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

using Tensors = std::map<std::string, HostTensor>;

// One tensor of the call and what the contract says about it.
struct Argument {
  const TensorContract* contract;
  const HostTensor* tensor;
  std::string label;  // 'input "tokens"'
};

std::string ModelName(const PackageContract& contract) {
  return absl::StrCat("model ", contract.name, "@", contract.version);
}

std::string ShapeText(const TensorContract& tensor) {
  return absl::StrCat(
      "[",
      absl::StrJoin(tensor.shape, ",",
                    [](std::string* out, const SizeExpression& size) {
                      absl::StrAppend(out, size.text());
                    }),
      "]");
}

// Finds the sizes of one call, argument by argument.
class Binder {
 public:
  explicit Binder(const PackageContract& contract) : contract_(contract) {}

  // Notes the arguments of one kind ("input", "target") after checking that all
  // `wanted` are there, and nothing else.
  absl::Status AddArguments(absl::string_view kind,
                            const std::vector<TensorContract>& wanted,
                            const Tensors& tensors) {
    PIPESTAGE_RETURN_IF_ERROR(CheckNames(kind, wanted, tensors));
    for (const TensorContract& tensor : wanted) {
      arguments_.push_back({&tensor, &tensors.at(tensor.name),
                            absl::StrCat(kind, " \"", tensor.name, "\"")});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Binding> Bind() {
    for (const Argument& argument : arguments_) {
      PIPESTAGE_RETURN_IF_ERROR(CheckLayout(argument));
    }
    for (const Argument& argument : arguments_) {
      PIPESTAGE_RETURN_IF_ERROR(BindNames(argument));
    }
    // Only now has every name its value.
    for (const Argument& argument : arguments_) {
      PIPESTAGE_RETURN_IF_ERROR(CheckExpressions(argument));
    }
    Binding binding;
    for (const auto& [name, size] : sizes_.all()) {
      if (name == kRowsName) {
        binding.rows = size;
      } else {
        binding.sizes.Set(name, size);
      }
    }
    return binding;
  }

 private:
  absl::Status Invalid(absl::string_view reason, std::string message) const {
    return WithReason(
        absl::InvalidArgumentError(message), reason,
        {{"model", contract_.name}, {"version", contract_.version}});
  }

  absl::Status CheckNames(absl::string_view kind,
                          const std::vector<TensorContract>& wanted,
                          const Tensors& tensors) const {
    const auto known = [&] {
      if (wanted.empty()) return absl::StrCat("takes no ", kind, "s here");
      return absl::StrCat(
          "takes ", absl::StrJoin(wanted, ", ", [](auto* out, const auto& t) {
            absl::StrAppend(out, "\"", t.name, "\"");
          }));
    };
    for (const auto& [name, tensor] : tensors) {
      const auto same_name = [&name = name](const auto& t) {
        return t.name == name;
      };
      if (std::any_of(wanted.begin(), wanted.end(), same_name)) continue;
      return Invalid(reason::kInvalidInput,
                     absl::StrCat(kind, " \"", name, "\" is not known; ",
                                  ModelName(contract_), " ", known()));
    }
    for (const TensorContract& tensor : wanted) {
      if (tensors.count(tensor.name) != 0) continue;
      return Invalid(reason::kInvalidInput,
                     absl::StrCat(kind, " \"", tensor.name, "\" is missing; ",
                                  ModelName(contract_), " ", known()));
    }
    return absl::OkStatus();
  }

  absl::Status CheckLayout(const Argument& argument) const {
    const auto& [contract, tensor, label] = argument;
    if (tensor->dtype != contract->dtype) {
      return Invalid(
          reason::kInvalidInput,
          absl::StrCat(label, " has dtype ", DTypeName(tensor->dtype), "; ",
                       ModelName(contract_), " takes ",
                       DTypeName(contract->dtype)));
    }
    if (tensor->shape.size() != contract->shape.size()) {
      return Invalid(
          reason::kShapeMismatch,
          absl::StrCat(label, " has ", tensor->shape.size(),
                       tensor->shape.size() == 1 ? " axis, " : " axes, ",
                       ShapeToString(tensor->shape), "; ", ModelName(contract_),
                       " takes ", contract->shape.size(), ", ",
                       ShapeText(*contract)));
    }
    return absl::OkStatus();
  }

  // 'input "tokens" has shape [3,17]: axis 1 is 17'.
  std::string AxisText(const Argument& argument, size_t axis) const {
    return absl::StrCat(argument.label, " has shape ",
                        ShapeToString(argument.tensor->shape), ": axis ", axis,
                        " is ", argument.tensor->shape[axis]);
  }

  absl::Status BindNames(const Argument& argument) {
    for (size_t axis = 0; axis < argument.contract->shape.size(); ++axis) {
      const auto name = argument.contract->shape[axis].name();
      if (!name) continue;
      const int64_t size = argument.tensor->shape[axis];
      const std::optional<int64_t> known = sizes_.Get(*name);
      if (!known) {
        PIPESTAGE_RETURN_IF_ERROR(CheckRange(argument, axis, *name));
        sizes_.Set(*name, size);
        bound_by_[*name] = argument.label;
      } else if (*known != size) {
        return Invalid(reason::kShapeMismatch,
                       absl::StrCat(AxisText(argument, axis), "; ", *name,
                                    " is ", *known, " by ", bound_by_[*name]));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckRange(const Argument& argument, size_t axis,
                          const std::string& name) const {
    const int64_t size = argument.tensor->shape[axis];
    if (name == kRowsName) {
      // The range of rows is about microbatches: CheckMicrobatchRows.
      if (size >= 1) return absl::OkStatus();
      return Invalid(reason::kInvalidInput,
                     absl::StrCat(AxisText(argument, axis),
                                  "; a batch has at least 1 row"));
    }
    const auto found = contract_.sizes.find(name);
    const SizeRange range =
        found == contract_.sizes.end() ? SizeRange() : found->second;
    if (range.min <= size && size <= range.max) return absl::OkStatus();
    const std::string limit =
        range.max == INT64_MAX
            ? absl::StrCat("of at least ", range.min)
            : absl::StrCat("from ", range.min, " to ", range.max);
    return Invalid(
        reason::kShapeMismatch,
        absl::StrCat(AxisText(argument, axis), "; ", ModelName(contract_),
                     " takes ", name, " ", limit));
  }

  absl::Status CheckExpressions(const Argument& argument) const {
    for (size_t axis = 0; axis < argument.contract->shape.size(); ++axis) {
      const SizeExpression& expression = argument.contract->shape[axis];
      if (expression.name()) continue;
      const absl::StatusOr<int64_t> want = expression.Evaluate(sizes_);
      if (!want.ok()) {
        return Invalid(reason::kShapeMismatch,
                       absl::StrCat(AxisText(argument, axis), "; ",
                                    want.status().message()));
      }
      if (*want == argument.tensor->shape[axis]) continue;
      std::string want_text = absl::StrCat(*want);
      if (!expression.constant()) {
        absl::StrAppend(&want_text, " (", expression.text(), ")");
      }
      return Invalid(reason::kShapeMismatch,
                     absl::StrCat(AxisText(argument, axis), "; ",
                                  ModelName(contract_), " takes ", want_text));
    }
    return absl::OkStatus();
  }

  const PackageContract& contract_;
  std::vector<Argument> arguments_;
  Sizes sizes_;  // of the whole batch, with rows
  std::map<std::string, std::string> bound_by_;  // label of the first argument
};

}  // namespace

absl::StatusOr<Binding> BindCall(const PackageContract& contract,
                                 const Tensors& inputs, const Tensors& targets,
                                 bool need_targets) {
  Binder binder(contract);
  PIPESTAGE_RETURN_IF_ERROR(
      binder.AddArguments("input", contract.inputs, inputs));
  static const std::vector<TensorContract>& none =
      *new std::vector<TensorContract>();
  PIPESTAGE_RETURN_IF_ERROR(binder.AddArguments(
      "target", need_targets ? contract.targets : none, targets));
  return binder.Bind();
}

absl::Status CheckMicrobatchRows(const PackageContract& contract,
                                 int64_t smallest, int64_t largest) {
  const auto found = contract.sizes.find(std::string(kRowsName));
  if (found == contract.sizes.end()) return absl::OkStatus();
  const SizeRange& range = found->second;
  if (smallest >= range.min && largest <= range.max) return absl::OkStatus();
  const int64_t rows = smallest < range.min ? smallest : largest;
  return WithReason(
      absl::InvalidArgumentError(absl::StrCat(
          "a microbatch would have ", rows, rows == 1 ? " row; " : " rows; ",
          ModelName(contract), " takes from ", range.min, " to ", range.max)),
      reason::kShapeMismatch,
      {{"model", contract.name}, {"version", contract.version}});
}

}  // namespace pipestage
