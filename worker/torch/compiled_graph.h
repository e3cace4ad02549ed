#ifndef PIPESTAGE_WORKER_TORCH_COMPILED_GRAPH_H_
#define PIPESTAGE_WORKER_TORCH_COMPILED_GRAPH_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/dispatch/Dispatcher.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/torch/argument_template.h"
#include "worker/torch/autocast_scope.h"
#include "worker/torch/symbolic_ops.h"
#include "worker/torch/torch_tensor.h"

namespace pipestage {

class CompiledGraph;

// A block of Python's `with`, run as a graph of its own.
struct CompiledBlock {
  std::unique_ptr<const CompiledGraph> graph;
  std::optional<bool> grad_mode;                   // torch.no_grad and the like
  std::optional<AutocastScope::Options> autocast;  // torch.autocast
};

struct CompiledNode {
  // "node linear_3 (torch.ops.aten.linear.default, model.py:7 in forward:
  // ...)".
  std::string description;

  // What it does: one of these.
  std::optional<c10::OperatorHandle> op;
  const SymbolicOpInfo* symbolic = nullptr;
  std::optional<CompiledBlock> block;

  std::vector<ArgumentTemplate> arguments;
  // What it returns, in order: one slot, or as many as a returned list has
  // elements.
  struct Output {
    std::vector<int> slots;
    bool is_list = false;
    bool is_number = false;
  };
  std::vector<Output> outputs;
  // Arguments that it writes to.
  std::vector<int> written;
  // Slots that nobody reads after it.
  std::vector<int> release;
};

// The nodes of an exported graph, in order, ready to be called one by one
// through LibTorch's dispatcher. Made by CompileGraph.
//
// Immutable: any number of threads may run it at once.
class CompiledGraph {
 public:
  // Takes the values of the graph's inputs and returns those of its outputs.
  // `taken`: storages that the graph may not write to, checked where a load
  // could not tell. Grad and inference mode are the caller's.
  //
  // Aborted, naming the node and its line of Python; ResourceExhausted.
  absl::StatusOr<std::vector<c10::IValue>> Run(std::vector<c10::IValue> inputs,
                                               const StorageSet& taken) const;

  // Whether it draws random numbers, so that a run moves the generator.
  bool draws_random() const { return draws_random_; }

 private:
  friend class GraphCompiler;

  absl::Status RunNode(const CompiledNode& node, Slots& slots,
                       c10::Stack& stack, const StorageSet& taken) const;
  absl::Status CheckWrites(const CompiledNode& node, const c10::Stack& stack,
                           const StorageSet& taken) const;

  std::vector<int> inputs_;
  std::vector<int> outputs_;
  std::vector<CompiledNode> nodes_;
  int num_slots_ = 0;
  bool draws_random_ = false;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_COMPILED_GRAPH_H_
