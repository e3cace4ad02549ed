#include "worker/torch/torch_loss.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "c10/core/InferenceMode.h"
#include "worker/torch/loss_terms.h"
#include "worker/torch/torch_device.h"
#include "worker/torch/torch_errors.h"

namespace pipestage {
namespace {

using Kind = LossContract::Kind;

// Where the loss finds one of its tensors.
struct Source {
  bool is_target = false;
  int index = 0;
};

absl::StatusOr<Source> FindSource(const PackageContract& contract,
                                  const std::string& name) {
  if (const std::optional<int> output = contract.OutputIndex(name)) {
    return Source{false, *output};
  }
  if (const std::optional<int> target = contract.TargetIndex(name)) {
    return Source{true, *target};
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the loss names \"", name, "\", which is no output and no target"));
}

// The axis of the terms that is the batch's: the target's, else the
// prediction's.
std::optional<int> RowAxis(const PackageContract& contract,
                           const std::vector<Source>& sources) {
  if (contract.loss->kind == Kind::kProgram) return 0;
  const std::optional<int> axis = contract.targets[sources[1].index].axis;
  return axis ? axis : contract.outputs[sources[0].index].axis;
}

class TorchLoss : public LossFunction {
 public:
  TorchLoss(LossContract contract, std::vector<Source> sources,
            std::optional<int> row_axis, std::unique_ptr<StageProgram> program,
            c10::Device device)
      : contract_(std::move(contract)),
        sources_(std::move(sources)),
        row_axis_(row_axis),
        program_(std::move(program)),
        device_(device) {}

  absl::StatusOr<MicrobatchLossValue> Compute(
      absl::Span<const StageTensor> outputs,
      absl::Span<const StageTensor> targets, int64_t rows,
      bool want_rows) override {
    auto value =
        CallTorch("the loss", [&]() -> absl::StatusOr<MicrobatchLossValue> {
          const c10::InferenceMode inference_mode;
          const DeviceScope device_scope(device_);
          PIPESTAGE_ASSIGN_OR_RETURN(LossTerms terms,
                                     Terms(outputs, targets, rows));
          if (want_rows && !row_axis_) {
            return absl::AbortedError(
                "neither target nor prediction has an axis of rows, so rows "
                "have "
                "no losses");
          }
          terms.row_axis = row_axis_.value_or(0);
          return SumTerms(terms, rows, want_rows);
        });
    if (!value.ok()) EndProcessIfLost(device_, value.status());
    return value;
  }

 private:
  absl::StatusOr<LossTerms> Terms(absl::Span<const StageTensor> outputs,
                                  absl::Span<const StageTensor> targets,
                                  int64_t rows) {
    std::vector<at::Tensor> tensors;
    for (const Source& source : sources_) {
      const auto& from = source.is_target ? targets : outputs;
      if (source.index >= static_cast<int>(from.size())) {
        return absl::AbortedError("a tensor that the loss takes was not given");
      }
      const StageTensor& tensor = from[source.index];
      tensors.push_back(ToTorch(tensor, DeviceFor(source, tensor)));
    }
    switch (contract_.kind) {
      case Kind::kCrossEntropy:
        return CrossEntropyTerms(tensors[0], tensors[1],
                                 contract_.ignore_index);
      case Kind::kMeanSquaredError:
        return SquaredErrorTerms(tensors[0], tensors[1]);
      case Kind::kProgram:
        break;
    }
    PIPESTAGE_ASSIGN_OR_RETURN(const std::vector<at::Tensor> results,
                               program_->Run(tensors));
    return ProgramTerms(results, rows);
  }

  // Targets of a cross entropy are looked at on the host first.
  c10::Device DeviceFor(const Source& source, const StageTensor& tensor) const {
    const bool stays = contract_.kind == Kind::kCrossEntropy &&
                       source.is_target && tensor.device == DeviceKind::kHost;
    return stays ? c10::Device(c10::kCPU) : device_;
  }

  const LossContract contract_;
  const std::vector<Source> sources_;
  const std::optional<int> row_axis_;
  const std::unique_ptr<StageProgram> program_;
  const c10::Device device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LossFunction>> MakeTorchLoss(
    const PackageContract& contract, std::unique_ptr<StageProgram> program,
    c10::Device device) {
  if (!contract.loss) {
    return absl::FailedPreconditionError("the package has no loss");
  }
  const LossContract& loss = *contract.loss;
  std::vector<std::string> names = {loss.prediction, loss.target};
  if (loss.kind == Kind::kProgram) names = loss.inputs;
  std::vector<Source> sources;
  for (const std::string& name : names) {
    PIPESTAGE_ASSIGN_OR_RETURN(const Source source, FindSource(contract, name));
    sources.push_back(source);
  }
  if (loss.kind != Kind::kProgram &&
      (sources[0].is_target || !sources[1].is_target)) {
    return absl::FailedPreconditionError(
        "the loss' prediction is no output, or its target no target");
  }
  const std::optional<int> row_axis = RowAxis(contract, sources);
  return std::make_unique<TorchLoss>(loss, std::move(sources), row_axis,
                                     std::move(program), device);
}

}  // namespace pipestage
