#ifndef PIPESTAGE_WORKER_TORCH_GRAPH_COMPILER_H_
#define PIPESTAGE_WORKER_TORCH_GRAPH_COMPILER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/torch/compiled_graph.h"
#include "worker/torch/exported_graph.h"

namespace pipestage {

// Compiles an evaluation's graph for `device`. `owners` says for each input of
// the graph what it is ("buffer bn.running_mean"), for messages.
//
// FailedPrecondition, naming the node and its line of Python:
//   an operator that is not admitted (operator_admission.h), a higher-order
//   operator other than the blocks of no_grad, enable_grad and autocast;
//   a node that writes to one of the inputs;
//   a node that is there only when a model was exported in train mode.
absl::StatusOr<std::unique_ptr<const CompiledGraph>> CompileGraph(
    const ExportedGraph& graph, absl::Span<const std::string> owners,
    c10::Device device);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_GRAPH_COMPILER_H_
