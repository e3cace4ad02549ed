#include "worker/torch/compiled_graph.h"

#include <utility>

#include "ATen/core/List.h"
#include "ATen/core/grad_mode.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/torch/torch_errors.h"

namespace pipestage {
namespace {

Number ToNumber(const c10::IValue& value) {
  if (value.isBool()) return value.toBool();
  if (value.isDouble()) return value.toDouble();
  return int64_t{value.toInt()};
}

c10::IValue ToIValue(const Number& number) {
  return std::visit([](auto v) { return c10::IValue(v); }, number);
}

// Replaces the arguments on the stack by the result.
absl::Status ComputeNumber(const SymbolicOpInfo& info, c10::Stack& stack) {
  absl::InlinedVector<Number, 3> args;
  for (const c10::IValue& value : stack) args.push_back(ToNumber(value));
  PIPESTAGE_ASSIGN_OR_RETURN(const Number result, info.op(args));
  stack.assign(1, ToIValue(result));
  return absl::OkStatus();
}

// The same for the graph of a block.
absl::Status RunBlock(const CompiledBlock& block, c10::Stack& stack,
                      const StorageSet& taken) {
  std::optional<c10::AutoGradMode> grad_mode;
  if (block.grad_mode) grad_mode.emplace(*block.grad_mode);
  std::optional<AutocastScope> autocast;
  if (block.autocast) autocast.emplace(*block.autocast);
  PIPESTAGE_ASSIGN_OR_RETURN(stack, block.graph->Run(std::move(stack), taken));
  return absl::OkStatus();
}

absl::Status WrongCount(size_t actual, size_t expected) {
  return absl::AbortedError(
      absl::StrCat("returned ", actual, " values; its graph says ", expected));
}

// Spreads a returned list over its slots.
absl::Status StoreList(const CompiledNode::Output& output,
                       const c10::IValue& value, Slots& slots) {
  const c10::List<at::Tensor> list = value.toTensorList();
  if (list.size() != output.slots.size()) {
    return WrongCount(list.size(), output.slots.size());
  }
  for (size_t i = 0; i < list.size(); ++i) {
    slots[output.slots[i]] = list.get(i);
  }
  return absl::OkStatus();
}

// What an operator computes for Python's int, float or bool.
c10::IValue Concrete(const c10::IValue& value) {
  if (value.isSymInt()) return value.toInt();
  if (value.isSymFloat()) return value.toDouble();
  if (value.isSymBool()) return value.toBool();
  return value;
}

absl::Status StoreOutputs(const CompiledNode& node, c10::Stack& stack,
                          Slots& slots) {
  if (stack.size() != node.outputs.size()) {
    return WrongCount(stack.size(), node.outputs.size());
  }
  for (size_t i = 0; i < stack.size(); ++i) {
    const CompiledNode::Output& output = node.outputs[i];
    if (output.is_list) {
      PIPESTAGE_RETURN_IF_ERROR(StoreList(output, stack[i], slots));
    } else if (!output.slots.empty()) {
      slots[output.slots[0]] =
          output.is_number ? Concrete(stack[i]) : std::move(stack[i]);
    }
  }
  return absl::OkStatus();
}

bool ContainsAny(const StorageSet& taken, const c10::IValue& value) {
  if (value.isTensor()) return taken.Contains(value.toTensor());
  if (!value.isTensorList()) return false;
  for (const at::Tensor& tensor : value.toTensorVector()) {
    if (taken.Contains(tensor)) return true;
  }
  return false;
}

absl::Status At(const CompiledNode& node, const absl::Status& status) {
  return absl::Status(status.code() == absl::StatusCode::kResourceExhausted
                          ? status.code()
                          : absl::StatusCode::kAborted,
                      absl::StrCat(node.description, ": ", status.message()));
}

}  // namespace

absl::StatusOr<std::vector<c10::IValue>> CompiledGraph::Run(
    std::vector<c10::IValue> inputs, const StorageSet& taken) const {
  if (inputs.size() != inputs_.size()) {
    return WrongCount(inputs.size(), inputs_.size());
  }
  Slots slots(num_slots_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    slots[inputs_[i]] = std::move(inputs[i]);
  }
  c10::Stack stack;
  for (const CompiledNode& node : nodes_) {
    PIPESTAGE_RETURN_IF_ERROR(RunNode(node, slots, stack, taken));
    for (const int slot : node.release) slots[slot] = c10::IValue();
  }
  std::vector<c10::IValue> outputs;
  outputs.reserve(outputs_.size());
  for (const int slot : outputs_) outputs.push_back(slots[slot]);
  return outputs;
}

absl::Status CompiledGraph::RunNode(const CompiledNode& node, Slots& slots,
                                    c10::Stack& stack,
                                    const StorageSet& taken) const {
  absl::Status status;
  try {
    stack.clear();
    for (const ArgumentTemplate& argument : node.arguments) {
      stack.push_back(argument.Make(slots));
    }
    if (node.block) {
      // Its own nodes have said where it failed.
      PIPESTAGE_RETURN_IF_ERROR(RunBlock(*node.block, stack, taken));
    } else if (node.symbolic != nullptr) {
      status = ComputeNumber(*node.symbolic, stack);
    } else {
      if (!node.written.empty()) status = CheckWrites(node, stack, taken);
      if (status.ok()) node.op->callBoxed(stack);
    }
    if (status.ok()) status = StoreOutputs(node, stack, slots);
  } catch (...) {
    return CurrentExceptionStatus(node.description);
  }
  return status.ok() ? status : At(node, status);
}

absl::Status CompiledGraph::CheckWrites(const CompiledNode& node,
                                        const c10::Stack& stack,
                                        const StorageSet& taken) const {
  for (const int position : node.written) {
    if (ContainsAny(taken, stack[position])) {
      return absl::AbortedError(
          "writes to an input, parameter or buffer of the stage, which an "
          "evaluation must leave as it was");
    }
  }
  return absl::OkStatus();
}

}  // namespace pipestage
