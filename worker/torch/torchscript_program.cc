#include "worker/torch/torchscript_program.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "torch/csrc/jit/api/module.h"
#include "torch/csrc/jit/serialization/import.h"
#include "worker/torch/memory_reader.h"
#include "worker/torch/random_state_scope.h"
#include "worker/torch/torch_errors.h"

namespace pipestage {
namespace {

// Parameters and buffers with what they held when they were loaded.
class SavedState {
 public:
  explicit SavedState(const torch::jit::Module& module) {
    for (const auto& entry : module.named_parameters()) {
      tensors_.push_back({entry.name, entry.value, entry.value._version(), {}});
    }
    for (const auto& entry : module.named_buffers()) {
      tensors_.push_back({entry.name, entry.value, entry.value._version(),
                          entry.value.clone()});
    }
  }

  // Puts back the buffers that were written to. Aborted if a parameter was.
  absl::Status Restore() {
    absl::Status status;
    for (Saved& saved : tensors_) {
      if (saved.tensor._version() == saved.version) continue;
      if (saved.content.defined()) {
        saved.tensor.copy_(saved.content);
      } else {
        status = absl::AbortedError(
            absl::StrCat("it wrote to its parameter ", saved.name));
      }
      saved.version = saved.tensor._version();
    }
    return status;
  }

  void AddTo(StorageSet& storages, int64_t& bytes) const {
    for (const Saved& saved : tensors_) {
      storages.Add(saved.tensor);
      bytes += static_cast<int64_t>(saved.tensor.nbytes());
    }
  }

 private:
  struct Saved {
    std::string name;
    at::Tensor tensor;
    int64_t version;
    at::Tensor content;
  };
  std::vector<Saved> tensors_;
};

absl::Status AppendOutputs(const c10::IValue& value,
                           std::vector<at::Tensor>& outputs) {
  if (value.isTensor()) {
    outputs.push_back(value.toTensor());
    return absl::OkStatus();
  }
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      outputs.push_back(tensor);
    }
    return absl::OkStatus();
  }
  if (!value.isTuple()) {
    return absl::AbortedError(
        absl::StrCat("it returned a ", value.tagKind(), ", not tensors"));
  }
  for (const c10::IValue& element : value.toTupleRef().elements()) {
    if (!element.isTensor()) {
      return absl::AbortedError(absl::StrCat("it returned a tuple with a ",
                                             element.tagKind(), " in it"));
    }
    outputs.push_back(element.toTensor());
  }
  return absl::OkStatus();
}

class TorchScriptProgram : public StageProgram {
 public:
  TorchScriptProgram(torch::jit::Module module, c10::Device device)
      : module_(std::move(module)), device_(device), saved_(module_) {
    saved_.AddTo(state_, weight_bytes_);
  }

  absl::StatusOr<std::vector<at::Tensor>> Run(
      absl::Span<const at::Tensor> inputs) override {
    return CallTorch("TorchScript module",
                     [&]() -> absl::StatusOr<std::vector<at::Tensor>> {
                       const RandomStateScope random_state(device_);
                       auto outputs = Forward(inputs);
                       const absl::Status restored = saved_.Restore();
                       return restored.ok() ? outputs : restored;
                     });
  }

  const ProgramSignature* signature() const override { return nullptr; }
  const StorageSet& state() const override { return state_; }
  int64_t weight_bytes() const override { return weight_bytes_; }

 private:
  absl::StatusOr<std::vector<at::Tensor>> Forward(
      absl::Span<const at::Tensor> inputs) {
    return CallTorch(
        "TorchScript module", [&]() -> absl::StatusOr<std::vector<at::Tensor>> {
          std::vector<at::Tensor> outputs;
          const absl::Status status =
              AppendOutputs(module_.forward(std::vector<c10::IValue>(
                                inputs.begin(), inputs.end())),
                            outputs);
          if (!status.ok()) return status;
          return outputs;
        });
  }

  torch::jit::Module module_;
  const c10::Device device_;
  SavedState saved_;
  StorageSet state_;
  int64_t weight_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StageProgram>> LoadTorchScript(
    absl::string_view archive, c10::Device device) {
  auto program = CallTorch(
      "not a TorchScript archive",
      [&]() -> absl::StatusOr<std::unique_ptr<StageProgram>> {
        torch::jit::Module module =
            torch::jit::load(std::make_shared<MemoryReader>(archive), device);
        module.eval();
        return std::make_unique<TorchScriptProgram>(std::move(module), device);
      });
  if (program.ok() ||
      program.status().code() == absl::StatusCode::kResourceExhausted) {
    return program;
  }
  return absl::FailedPreconditionError(program.status().message());
}

}  // namespace pipestage
