#ifndef PIPESTAGE_WORKER_TORCH_EXPORTED_PROGRAM_H_
#define PIPESTAGE_WORKER_TORCH_EXPORTED_PROGRAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/torch/compiled_graph.h"
#include "worker/torch/exported_archive.h"
#include "worker/torch/stage_program.h"
#include "worker/torch/stage_weights.h"

namespace pipestage {

// A program of torch.export, run node by node through LibTorch's dispatcher:
// what Python computes in evaluation mode, bit for bit.
class ExportedProgram : public StageProgram {
 public:
  struct Options {
    c10::Device device = c10::kCPU;
    // The inputs that come by keyword, after the positional ones.
    std::vector<std::string> keywords;
  };

  // `archive`: the bytes of a .pt2 file, not needed afterwards.
  //
  // FailedPrecondition: an archive, a weight or a node that does not serve (see
  // graph_compiler.h); keywords other than the program's.
  static absl::StatusOr<std::unique_ptr<ExportedProgram>> Load(
      absl::string_view archive, const StageWeights& weights,
      const Options& options);

  absl::StatusOr<std::vector<at::Tensor>> Run(
      absl::Span<const at::Tensor> inputs) override;
  const ProgramSignature* signature() const override { return &signature_; }
  const StorageSet& state() const override { return state_; }
  int64_t weight_bytes() const override { return weight_bytes_; }

 private:
  // An axis whose size varies: all axes of one symbol have the same size.
  struct Symbol {
    std::string name;
    ExportedRange range;
  };
  struct UserInput {
    int position;              // among the graph's inputs
    std::vector<int> symbols;  // by axis: of symbols_, or -1
  };

  ExportedProgram() = default;

  absl::Status BindState(const ExportedArchive& archive,
                         const StageWeights& weights, c10::Device device);
  absl::Status BindUserInputs(const ExportedModule& module,
                              const std::vector<std::string>& keywords);
  UserInput DescribeUserInput(const ExportedModule& module, int position);
  void DescribeOutputs(const ExportedModule& module);
  int SymbolIndex(const ExportedModule& module, const std::string& name);
  absl::Status CheckInputs(absl::Span<const at::Tensor> inputs) const;
  absl::Status CheckInput(int index, const at::Tensor& tensor,
                          std::vector<int64_t>& symbols) const;

  c10::Device device_ = c10::kCPU;
  std::unique_ptr<const CompiledGraph> graph_;
  ProgramSignature signature_;
  // By the graph's inputs; undefined where a user input goes.
  std::vector<at::Tensor> bound_;
  std::vector<UserInput> user_inputs_;  // in the order of Run's inputs
  std::vector<Symbol> symbols_;
  StorageSet state_;
  int64_t weight_bytes_ = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_EXPORTED_PROGRAM_H_
