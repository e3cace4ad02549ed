#include "package/contract.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "package/contract_parser.h"
#include "package/contract_rules.h"

namespace pipestage {
namespace {

// `params` of a module may nest; nothing else is deeper than 6.
constexpr int kMaxJsonDepth = 32;

std::optional<int> IndexOf(const std::vector<TensorContract>& tensors,
                           absl::string_view name) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name == name) return static_cast<int>(i);
  }
  return std::nullopt;
}

}  // namespace

std::optional<int> PackageContract::InputIndex(absl::string_view name) const {
  return IndexOf(inputs, name);
}
std::optional<int> PackageContract::TargetIndex(absl::string_view name) const {
  return IndexOf(targets, name);
}
std::optional<int> PackageContract::OutputIndex(absl::string_view name) const {
  return IndexOf(outputs, name);
}

absl::StatusOr<PackageContract> ParseContract(absl::string_view json) {
  PIPESTAGE_ASSIGN_OR_RETURN(const nlohmann::json document,
                             ParseStrictJson(json, kMaxJsonDepth));
  PIPESTAGE_ASSIGN_OR_RETURN(PackageContract contract,
                             ReadContract(JsonPlace(document)));
  PIPESTAGE_RETURN_IF_ERROR(CheckTensorRules(contract));
  PIPESTAGE_RETURN_IF_ERROR(CheckStageRules(contract));
  PIPESTAGE_RETURN_IF_ERROR(CheckSizeRules(contract));
  PIPESTAGE_RETURN_IF_ERROR(CheckLossRules(contract));
  PIPESTAGE_RETURN_IF_ERROR(CheckFileRules(contract));
  return contract;
}

absl::StatusOr<Shape> ResolveShape(const TensorContract& contract,
                                   const Sizes& sizes) {
  Shape shape;
  for (const SizeExpression& expression : contract.shape) {
    const absl::StatusOr<int64_t> size = expression.Evaluate(sizes);
    if (!size.ok()) {
      return absl::Status(size.status().code(),
                          absl::StrCat("tensor \"", contract.name,
                                       "\": ", size.status().message()));
    }
    shape.push_back(*size);
  }
  return shape;
}

}  // namespace pipestage
