#ifndef PIPESTAGE_WORKER_TORCH_GRAPH_COMPILER_CLASS_H_
#define PIPESTAGE_WORKER_TORCH_GRAPH_COMPILER_CLASS_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "ATen/core/function_schema.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/torch/argument_template.h"
#include "worker/torch/compiled_graph.h"
#include "worker/torch/exported_graph.h"

namespace pipestage {

// One graph at a time; a block's graph has a compiler of its own.
class GraphCompiler {
 public:
  explicit GraphCompiler(c10::Device device)
      : device_(device), graph_(std::make_unique<CompiledGraph>()) {}

  // Whose storage a value may share, as far as schemas tell: descriptions.
  using Owners = std::set<std::string>;

  absl::Status Compile(const ExportedGraph& graph,
                       absl::Span<const Owners> owners);
  // Of output i, after Compile.
  const Owners& output_owners(int i) { return owners_[graph_->outputs_[i]]; }
  std::unique_ptr<const CompiledGraph> Finish() { return std::move(graph_); }

 private:
  absl::Status CompileNode(const ExportedNode& exported);
  absl::Status CompileOperator(const ExportedNode& exported,
                               CompiledNode& node);
  absl::Status CompileArguments(const ExportedNode& exported,
                                const c10::FunctionSchema& schema,
                                CompiledNode& node);
  // Whether it is the value of an earlier node and no tensor.
  bool IsNumber(const ExportedArgument& argument);
  absl::Status CompileSymbolic(const ExportedNode& exported,
                               CompiledNode& node);
  absl::Status CompileBlock(const ExportedNode& exported, CompiledNode& node);
  absl::Status CompileBlockGraph(const ExportedNode& exported, int graph,
                                 CompiledNode& node);
  absl::Status AddOutputs(const ExportedNode& exported, CompiledNode& node);
  absl::Status CheckWrites(const c10::FunctionSchema& schema,
                           CompiledNode& node);
  void PassOwnersOn(const c10::FunctionSchema& schema,
                    const CompiledNode& node);
  void FindReleases();

  Owners OwnersOf(const ArgumentTemplate& argument) const;
  absl::StatusOr<SlotRef> Lookup(const std::string& name) const;
  SlotLookup lookup() const {
    return [this](const std::string& name) { return Lookup(name); };
  }
  int AddSlot(const std::string& name, bool is_number);

  const c10::Device device_;
  std::unique_ptr<CompiledGraph> graph_;
  std::map<std::string, SlotRef> slots_;
  std::map<int, Owners> owners_;  // by slot
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_GRAPH_COMPILER_CLASS_H_
