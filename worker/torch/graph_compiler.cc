#include "worker/torch/graph_compiler.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "worker/torch/evaluation_rules.h"
#include "worker/torch/graph_compiler_class.h"
#include "worker/torch/operator_admission.h"

namespace pipestage {
namespace {

using Kind = ExportedArgument::Kind;

std::string DescribeNode(const ExportedNode& node) {
  std::string text = absl::StrCat("node ", node.name, " (", node.target);
  if (!node.source.empty()) absl::StrAppend(&text, ", ", node.source);
  return absl::StrCat(text, ")");
}

// Factories, which make a tensor from no tensor, need to be told the device.
bool IsFactory(const c10::FunctionSchema& schema) {
  for (const c10::Argument& argument : schema.arguments()) {
    if (argument.type()->kind() == c10::TypeKind::TensorType) return false;
  }
  return schema.argumentIndexWithName("device").has_value();
}

bool MayAlias(const c10::Argument& argument) {
  return argument.alias_info() != nullptr;
}

}  // namespace

int GraphCompiler::AddSlot(const std::string& name, bool is_number) {
  const int slot = graph_->num_slots_++;
  slots_[name] = {slot, is_number};
  return slot;
}

absl::StatusOr<SlotRef> GraphCompiler::Lookup(const std::string& name) const {
  const auto it = slots_.find(name);
  if (it == slots_.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("value ", name, " is used before it is made"));
  }
  return it->second;
}

GraphCompiler::Owners GraphCompiler::OwnersOf(
    const ArgumentTemplate& argument) const {
  Owners owners;
  for (const int slot : argument.slots()) {
    const auto it = owners_.find(slot);
    if (it != owners_.end())
      owners.insert(it->second.begin(), it->second.end());
  }
  return owners;
}

absl::Status GraphCompiler::Compile(const ExportedGraph& graph,
                                    absl::Span<const Owners> owners) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (graph.inputs[i].kind != Kind::kValue) {
      return absl::FailedPreconditionError(
          absl::StrCat("input ", i, " of the graph is no tensor"));
    }
    const std::string& name = graph.inputs[i].names[0];
    const int slot = AddSlot(name, graph.inputs[i].is_symbolic);
    graph_->inputs_.push_back(slot);
    owners_[slot] = owners[i];
  }
  for (const ExportedNode& node : graph.nodes) {
    PIPESTAGE_RETURN_IF_ERROR(CompileNode(node));
  }
  for (const ExportedArgument& output : graph.outputs) {
    if (output.kind != Kind::kValue) {
      return absl::FailedPreconditionError(
          "an output of the graph is None or a constant, not a tensor");
    }
    PIPESTAGE_ASSIGN_OR_RETURN(const SlotRef ref, Lookup(output.names[0]));
    graph_->outputs_.push_back(ref.slot);
  }
  FindReleases();
  return absl::OkStatus();
}

absl::Status GraphCompiler::CompileNode(const ExportedNode& exported) {
  CompiledNode node;
  node.description = DescribeNode(exported);
  absl::Status status;
  bool named = false;  // whether the message names a node already
  if (const SymbolicOpInfo* info = FindSymbolicOp(exported.target)) {
    node.symbolic = info;
    status = CompileSymbolic(exported, node);
  } else if (absl::StartsWith(exported.target, "torch.ops.higher_order.")) {
    status = CompileBlock(exported, node);
    named = absl::StartsWith(status.message(), "node ");
  } else {
    status = CompileOperator(exported, node);
  }
  if (!status.ok()) {
    if (named) return status;
    return absl::FailedPreconditionError(
        absl::StrCat(node.description, ": ", status.message()));
  }
  graph_->nodes_.push_back(std::move(node));
  return absl::OkStatus();
}

absl::Status GraphCompiler::CompileOperator(const ExportedNode& exported,
                                            CompiledNode& node) {
  PIPESTAGE_ASSIGN_OR_RETURN(node.op, AdmitOperator(exported.target));
  const c10::FunctionSchema& schema = node.op->schema();
  PIPESTAGE_RETURN_IF_ERROR(CompileArguments(exported, schema, node));
  PIPESTAGE_RETURN_IF_ERROR(CheckEvaluationMode(*node.op, node.arguments));
  PIPESTAGE_RETURN_IF_ERROR(CheckWrites(schema, node));
  if (exported.outputs.size() != schema.returns().size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the graph names ", exported.outputs.size(), " results, the operator ",
        "has ", schema.returns().size()));
  }
  PIPESTAGE_RETURN_IF_ERROR(AddOutputs(exported, node));
  PassOwnersOn(schema, node);
  graph_->draws_random_ |= DrawsRandom(*node.op);
  return absl::OkStatus();
}

absl::Status GraphCompiler::CompileArguments(const ExportedNode& exported,
                                             const c10::FunctionSchema& schema,
                                             CompiledNode& node) {
  std::vector<const ExportedArgument*> given(schema.arguments().size());
  for (const ExportedNode::Input& input : exported.inputs) {
    const std::optional<int> index = schema.argumentIndexWithName(input.name);
    if (!index) {
      return absl::FailedPreconditionError(
          absl::StrCat("the operator has no argument ", input.name));
    }
    given[*index] = &input.argument;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const c10::Argument& formal = schema.arguments()[i];
    if (given[i] != nullptr && given[i]->kind != Kind::kNone) {
      PIPESTAGE_ASSIGN_OR_RETURN(
          ArgumentTemplate argument,
          ArgumentTemplate::Create(formal, *given[i], lookup(), device_));
      node.arguments.push_back(std::move(argument));
    } else if (formal.name() == "device" && IsFactory(schema)) {
      node.arguments.push_back(ArgumentTemplate::Constant(device_));
    } else if (given[i] != nullptr) {
      node.arguments.push_back(ArgumentTemplate::Constant(c10::IValue()));
    } else if (formal.default_value()) {
      node.arguments.push_back(
          ArgumentTemplate::Constant(*formal.default_value()));
    } else {
      return absl::FailedPreconditionError(
          absl::StrCat("argument ", formal.name(), " is missing"));
    }
  }
  return absl::OkStatus();
}

bool GraphCompiler::IsNumber(const ExportedArgument& argument) {
  if (argument.kind != Kind::kValue) return false;
  const auto ref = Lookup(argument.names[0]);
  return ref.ok() && ref->is_number;
}

absl::Status GraphCompiler::CompileSymbolic(const ExportedNode& exported,
                                            CompiledNode& node) {
  if (exported.inputs.size() != static_cast<size_t>(node.symbolic->num_args)) {
    return absl::FailedPreconditionError(
        absl::StrCat("it has ", exported.inputs.size(), " arguments, not ",
                     node.symbolic->num_args));
  }
  const c10::Argument any("number", c10::NumberType::get());
  for (const ExportedNode::Input& input : exported.inputs) {
    PIPESTAGE_ASSIGN_OR_RETURN(
        ArgumentTemplate argument,
        ArgumentTemplate::Create(any, input.argument, lookup(), device_));
    if (argument.constant() ? !argument.constant()->isScalar()
                            : !IsNumber(input.argument)) {
      return absl::FailedPreconditionError(
          absl::StrCat("its argument ", input.name, " is no number"));
    }
    node.arguments.push_back(std::move(argument));
  }
  return AddOutputs(exported, node);
}

absl::Status GraphCompiler::AddOutputs(const ExportedNode& exported,
                                       CompiledNode& node) {
  for (const ExportedArgument& argument : exported.outputs) {
    CompiledNode::Output& output = node.outputs.emplace_back();
    switch (argument.kind) {
      case Kind::kNone:
        break;
      case Kind::kValue:
        output.slots.push_back(
            AddSlot(argument.names[0], argument.is_symbolic));
        output.is_number = argument.is_symbolic;
        break;
      case Kind::kValues:
        output.is_list = true;
        for (const std::string& name : argument.names) {
          output.slots.push_back(AddSlot(name, false));
        }
        break;
      default:
        return absl::FailedPreconditionError(
            "a result that is neither tensor, tensors nor number is not "
            "supported");
    }
  }
  return absl::OkStatus();
}

absl::Status GraphCompiler::CheckWrites(const c10::FunctionSchema& schema,
                                        CompiledNode& node) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    if (!IsWritten(schema.arguments()[i])) continue;
    node.written.push_back(i);
    const Owners owners = OwnersOf(node.arguments[i]);
    if (owners.empty()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "it writes to ", absl::StrJoin(owners, ", "),
        ", which an evaluation must leave as it was (was the program exported "
        "in train mode? call eval() on the model before torch.export)"));
  }
  return absl::OkStatus();
}

// A result that may be a view of an argument belongs to the argument's owners.
void GraphCompiler::PassOwnersOn(const c10::FunctionSchema& schema,
                                 const CompiledNode& node) {
  Owners owners;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    if (MayAlias(schema.arguments()[i])) {
      owners.merge(OwnersOf(node.arguments[i]));
    }
  }
  if (owners.empty()) return;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!MayAlias(schema.returns()[i])) continue;
    for (const int slot : node.outputs[i].slots) owners_[slot] = owners;
  }
}

// Lets go of every value after its last reader.
void GraphCompiler::FindReleases() {
  std::vector<bool> needed(graph_->num_slots_, false);
  for (const int slot : graph_->outputs_) needed[slot] = true;
  const auto release_if_last = [&](int slot, CompiledNode& node) {
    if (slot < 0 || needed[slot]) return;
    needed[slot] = true;
    node.release.push_back(slot);
  };
  for (auto node = graph_->nodes_.rbegin(); node != graph_->nodes_.rend();
       ++node) {
    for (const CompiledNode::Output& output : node->outputs) {
      for (const int slot : output.slots) release_if_last(slot, *node);
    }
    for (const ArgumentTemplate& argument : node->arguments) {
      for (const int slot : argument.slots()) release_if_last(slot, *node);
    }
  }
}

absl::StatusOr<std::unique_ptr<const CompiledGraph>> CompileGraph(
    const ExportedGraph& graph, absl::Span<const std::string> owners,
    c10::Device device) {
  std::vector<GraphCompiler::Owners> sets;
  for (const std::string& owner : owners) {
    sets.emplace_back();
    if (!owner.empty()) sets.back().insert(owner);
  }
  GraphCompiler compiler(device);
  PIPESTAGE_RETURN_IF_ERROR(compiler.Compile(graph, sets));
  return compiler.Finish();
}

}  // namespace pipestage
