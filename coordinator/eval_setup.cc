#include "coordinator/eval_setup.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_info.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

absl::Status InvalidOption(std::string message) {
  return WithReason(absl::InvalidArgumentError(std::move(message)),
                    reason::kInvalidInput);
}

absl::StatusOr<Microbatches> ChooseMicrobatches(const PackageContract& contract,
                                                const v1::CallOptions& options,
                                                int64_t rows) {
  int64_t count = contract.default_num_microbatches;
  switch (options.split_case()) {
    case v1::CallOptions::kNumMicrobatches:
      count = options.num_microbatches();
      if (count < 1) {
        return InvalidOption(
            absl::StrCat("num_microbatches is ", count, "; at least 1"));
      }
      break;
    case v1::CallOptions::kMicrobatchRows: {
      const int64_t size = options.microbatch_rows();
      if (size < 1) {
        return InvalidOption(
            absl::StrCat("microbatch_rows is ", size, "; at least 1"));
      }
      count = (rows - 1) / size + 1;
      break;
    }
    case v1::CallOptions::SPLIT_NOT_SET:
      break;
  }
  count = std::min(count, rows);
  if (count > kMaxMicrobatches) {
    return InvalidOption(absl::StrCat("the call asks for ", count,
                                      " microbatches; the limit is ",
                                      kMaxMicrobatches));
  }
  return Microbatches::Create(rows, count);
}

// The shape of one part; a size that is known only with the data is -1.
absl::StatusOr<Shape> PartShape(const TensorContract& contract,
                                const Binding& binding, int64_t rows) {
  Sizes sizes = binding.sizes;
  sizes.Set(kRowsName, rows);
  Shape shape;
  for (const SizeExpression& expression : contract.shape) {
    if (expression.is_data_dependent()) {
      shape.push_back(-1);
      continue;
    }
    PIPESTAGE_ASSIGN_OR_RETURN(const int64_t size, expression.Evaluate(sizes));
    shape.push_back(size);
  }
  return shape;
}

absl::Status CheckJoinable(const OutputLayout& layout) {
  for (size_t k = 0; k < layout.large_part.size(); ++k) {
    if (!layout.stacked && static_cast<int>(k) == layout.axis) continue;
    if (layout.large_part[k] != layout.small_part[k]) {
      return WithReason(absl::InvalidArgumentError(absl::StrCat(
                            "output \"", layout.contract->name,
                            "\" cannot be merged: its parts are ",
                            ShapeToString(layout.large_part), " and ",
                            ShapeToString(layout.small_part),
                            "; choose microbatches of one size")),
                        reason::kShapeMismatch);
    }
  }
  return absl::OkStatus();
}

absl::Status SizeLayout(OutputLayout& layout,
                        const Microbatches& microbatches) {
  PIPESTAGE_RETURN_IF_ERROR(CheckJoinable(layout));
  const int64_t count = microbatches.count();
  const int64_t remainder = microbatches.total_rows() % count;
  const int64_t num_large = remainder == 0 ? count : remainder;
  layout.merged = layout.large_part;
  if (layout.stacked) {
    layout.merged.insert(layout.merged.begin(), count);
  } else {
    layout.merged[layout.axis] = num_large * layout.extent(true) +
                                 (count - num_large) * layout.extent(false);
  }
  PIPESTAGE_ASSIGN_OR_RETURN(layout.merged_bytes,
                             NumBytes(layout.contract->dtype, layout.merged));
  PIPESTAGE_ASSIGN_OR_RETURN(
      layout.large_part_bytes,
      NumBytes(layout.contract->dtype, layout.large_part));
  return absl::OkStatus();
}

absl::StatusOr<OutputLayout> LayOut(const PackageContract& contract, int output,
                                    const Binding& binding,
                                    const Microbatches& microbatches) {
  OutputLayout layout;
  layout.output = output;
  layout.contract = &contract.outputs[output];
  layout.stacked = !layout.contract->axis.has_value();
  layout.axis = layout.contract->axis.value_or(0);
  const int64_t smallest = microbatches.total_rows() / microbatches.count();
  PIPESTAGE_ASSIGN_OR_RETURN(
      layout.large_part,
      PartShape(*layout.contract, binding, microbatches.max_rows()));
  PIPESTAGE_ASSIGN_OR_RETURN(layout.small_part,
                             PartShape(*layout.contract, binding, smallest));
  for (const int64_t size : layout.large_part) {
    layout.data_dependent |= size < 0;
  }
  if (!layout.data_dependent) {
    PIPESTAGE_RETURN_IF_ERROR(SizeLayout(layout, microbatches));
  }
  return layout;
}

std::string Names(const std::vector<TensorContract>& contracts) {
  return absl::StrJoin(contracts, ", ",
                       [](std::string* out, const TensorContract& contract) {
                         absl::StrAppend(out, contract.name);
                       });
}

absl::StatusOr<std::vector<int>> ChooseOutputs(const PackageContract& contract,
                                               const v1::CallOptions& options) {
  std::vector<int> outputs;
  if (!options.return_outputs()) {
    if (options.outputs().empty()) return outputs;
    return InvalidOption("options.outputs names outputs; set return_outputs");
  }
  std::vector<bool> chosen(contract.outputs.size(), options.outputs().empty());
  for (const std::string& name : options.outputs()) {
    const auto index = contract.OutputIndex(name);
    if (!index) {
      return InvalidOption(absl::StrCat(
          "options.outputs names \"", name.substr(0, 256),
          "\"; the model's outputs are ", Names(contract.outputs)));
    }
    if (chosen[*index]) {
      return InvalidOption(
          absl::StrCat("options.outputs names ", name, " twice"));
    }
    chosen[*index] = true;
  }
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i]) outputs.push_back(static_cast<int>(i));
  }
  return outputs;
}

}  // namespace

absl::StatusOr<EvalSetup> SetUpEval(const LoadedModel& model,
                                    const v1::CallOptions& options,
                                    const CallInputs& inputs) {
  const PackageContract& contract = model.contract();
  const bool with_loss = contract.loss.has_value();
  if (options.return_row_losses() && !with_loss) {
    return InvalidOption(absl::StrCat("model ", model.package->ToString(),
                                      " has no loss; return_row_losses asks "
                                      "for those of its rows"));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(
      Binding binding,
      BindCall(contract, inputs.inputs, inputs.targets, with_loss));
  PIPESTAGE_ASSIGN_OR_RETURN(
      const Microbatches microbatches,
      ChooseMicrobatches(contract, options, binding.rows));
  PIPESTAGE_RETURN_IF_ERROR(CheckMicrobatchRows(
      contract, microbatches.total_rows() / microbatches.count(),
      microbatches.max_rows()));
  PIPESTAGE_ASSIGN_OR_RETURN(const std::vector<int> outputs,
                             ChooseOutputs(contract, options));
  EvalSetup setup{std::move(binding), microbatches};
  setup.with_loss = with_loss;
  setup.row_losses = options.return_row_losses();
  setup.timeline = options.return_timeline();
  setup.plan.mode = PlanMode::kEval;
  setup.plan.schedule = options.schedule().empty() ? contract.default_schedule
                                                   : options.schedule();
  setup.plan.num_ranks = model.placement.num_ranks;
  setup.plan.stages_per_rank = model.placement.stages_per_rank;
  setup.plan.placement = StagePlacement::kLoop;  // see coordinator/placement.h
  setup.plan.num_microbatches = microbatches.count();
  for (const int output : outputs) {
    PIPESTAGE_ASSIGN_OR_RETURN(
        OutputLayout layout,
        LayOut(contract, output, setup.binding, microbatches));
    setup.reply_bytes += layout.merged_bytes;
    setup.outputs.push_back(std::move(layout));
  }
  if (setup.row_losses) {
    setup.reply_bytes +=
        setup.binding.rows * (sizeof(double) + sizeof(int64_t));
  }
  return setup;
}

}  // namespace pipestage
