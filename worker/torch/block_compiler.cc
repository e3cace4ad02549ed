// Blocks of Python's `with`: see graph_compiler_class.h.

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/torch/autocast_scope.h"
#include "worker/torch/graph_compiler_class.h"
#include "worker/torch/torch_tensor.h"

namespace pipestage {

namespace {

using Kind = ExportedArgument::Kind;

absl::StatusOr<c10::DeviceType> AutocastDevice(const ExportedArgument& name,
                                               c10::Device device) {
  if (name.text == "cpu" || name.text == "cuda") return device.type();
  return absl::FailedPreconditionError(
      absl::StrCat("autocast on device \"", name.text, "\" is not supported"));
}

absl::StatusOr<std::optional<c10::ScalarType>> AutocastType(
    const ExportedArgument& argument) {
  if (argument.kind == Kind::kNone) return std::nullopt;
  const std::optional<DType> dtype =
      argument.kind == Kind::kScalarType
          ? DTypeOfScalarTypeCode(argument.ints[0])
          : std::nullopt;
  if (!dtype)
    return absl::FailedPreconditionError("autocast to no known dtype");
  return ToScalarType(*dtype);
}

// torch.autocast's arguments: device, dtype, enabled, cache enabled.
absl::StatusOr<AutocastScope::Options> ParseAutocast(
    const ExportedNode& exported, c10::Device device) {
  AutocastScope::Options options;
  const auto& inputs = exported.inputs;
  PIPESTAGE_ASSIGN_OR_RETURN(options.device,
                             AutocastDevice(inputs[0].argument, device));
  PIPESTAGE_ASSIGN_OR_RETURN(options.dtype, AutocastType(inputs[1].argument));
  const ExportedArgument& enabled = inputs[2].argument;
  const ExportedArgument& cache = inputs[3].argument;
  options.enabled = enabled.kind != Kind::kBool || enabled.ints[0] != 0;
  options.cache_enabled = cache.kind != Kind::kBool || cache.ints[0] != 0;
  return options;
}

}  // namespace

absl::Status GraphCompiler::CompileBlock(const ExportedNode& exported,
                                         CompiledNode& node) {
  node.block.emplace();
  const auto& inputs = exported.inputs;
  if (absl::EndsWith(exported.target, ".wrap_with_set_grad_enabled") &&
      inputs.size() >= 2 && inputs[0].argument.kind == Kind::kBool) {
    node.block->grad_mode = inputs[0].argument.ints[0] != 0;
    return CompileBlockGraph(exported, 1, node);
  }
  if (absl::EndsWith(exported.target, ".wrap_with_autocast") &&
      inputs.size() >= 5) {
    PIPESTAGE_ASSIGN_OR_RETURN(node.block->autocast,
                               ParseAutocast(exported, device_));
    return CompileBlockGraph(exported, 4, node);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("higher-order operator ", exported.target,
                   " is not admitted; only the blocks of no_grad, enable_grad "
                   "and autocast are"));
}

absl::Status GraphCompiler::CompileBlockGraph(const ExportedNode& exported,
                                              int graph, CompiledNode& node) {
  const ExportedArgument& block = exported.inputs[graph].argument;
  if (block.kind != Kind::kGraph ||
      block.graph->inputs.size() != exported.inputs.size() - graph - 1) {
    return absl::FailedPreconditionError("the block's graph does not fit it");
  }
  const c10::Argument any("operand", c10::AnyType::get());
  std::vector<Owners> owners;
  for (size_t i = graph + 1; i < exported.inputs.size(); ++i) {
    PIPESTAGE_ASSIGN_OR_RETURN(
        ArgumentTemplate argument,
        ArgumentTemplate::Create(any, exported.inputs[i].argument, lookup(),
                                 device_));
    owners.push_back(OwnersOf(argument));
    node.arguments.push_back(std::move(argument));
  }
  GraphCompiler compiler(device_);
  PIPESTAGE_RETURN_IF_ERROR(compiler.Compile(*block.graph, owners));
  PIPESTAGE_RETURN_IF_ERROR(AddOutputs(exported, node));
  if (node.outputs.size() != block.graph->outputs.size()) {
    return absl::FailedPreconditionError("the block's results do not fit it");
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    for (const int slot : node.outputs[i].slots) {
      owners_[slot] = compiler.output_owners(i);
    }
  }
  node.block->graph = compiler.Finish();
  graph_->draws_random_ |= node.block->graph->draws_random();
  return absl::OkStatus();
}

}  // namespace pipestage
