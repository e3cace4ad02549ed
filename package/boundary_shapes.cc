#include "package/boundary_shapes.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

absl::StatusOr<Shape> Resolve(const StageContract& stage,
                              absl::string_view role,
                              const TensorContract& tensor,
                              const Sizes& sizes) {
  Shape shape;
  for (const SizeExpression& expression : tensor.shape) {
    if (expression.is_data_dependent()) {
      shape.push_back(kDataDependentSize);
      continue;
    }
    const absl::StatusOr<int64_t> size = expression.Evaluate(sizes);
    if (!size.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", stage.index.value(), " ", role, " \"",
                       tensor.name, "\": ", size.status().message()));
    }
    shape.push_back(*size);
  }
  return shape;
}

}  // namespace

absl::StatusOr<StageShapes> ResolveStageShapes(const PackageContract& contract,
                                               StageIndex stage_index,
                                               const Sizes& sizes,
                                               int64_t rows) {
  const int32_t index = stage_index.value();
  if (index < 0 || index >= static_cast<int>(contract.stages.size())) {
    return absl::InvalidArgumentError(absl::StrCat("there is no stage ", index,
                                                   "; the model has ",
                                                   contract.stages.size()));
  }
  const StageContract& stage = contract.stages[index];
  Sizes all = sizes;
  all.Set(kRowsName, rows);
  StageShapes shapes;
  for (const TensorContract& input : stage.inputs) {
    PIPESTAGE_ASSIGN_OR_RETURN(shapes.inputs.emplace_back(),
                               Resolve(stage, "input", input, all));
  }
  for (const std::string& name : stage.keyword_inputs) {
    const std::optional<int> input = contract.InputIndex(name);
    if (!input) {
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", index, " takes \"", name,
                       "\", which is no input of the model"));
    }
    PIPESTAGE_ASSIGN_OR_RETURN(
        shapes.inputs.emplace_back(),
        Resolve(stage, "input", contract.inputs[*input], all));
  }
  for (const TensorContract& output : stage.outputs) {
    PIPESTAGE_ASSIGN_OR_RETURN(shapes.outputs.emplace_back(),
                               Resolve(stage, "output", output, all));
  }
  return shapes;
}

}  // namespace pipestage
