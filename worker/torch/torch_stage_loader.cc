#include "worker/torch/torch_stage_loader.h"

#include <utility>

#include "ATen/Parallel.h"
#include "ATen/ops/empty.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/status_macros.h"
#include "worker/torch/exported_program.h"
#include "worker/torch/module_program.h"
#include "worker/torch/program_check.h"
#include "worker/torch/torch_device.h"
#include "worker/torch/torch_errors.h"
#include "worker/torch/torch_loss.h"
#include "worker/torch/torch_stage.h"
#include "worker/torch/torch_tensor.h"
#include "worker/torch/torchscript_program.h"

namespace pipestage {
namespace {

// What is wrong with a file of a package, or with a stage of it.
absl::Status Broken(const ModelPackage& package, absl::string_view what,
                    const absl::Status& status) {
  const std::string message =
      absl::StrCat(package.ToString(), ": ", what, ": ", status.message());
  if (status.code() == absl::StatusCode::kResourceExhausted) {
    return absl::ResourceExhaustedError(message);
  }
  return WithReason(absl::FailedPreconditionError(message),
                    reason::kModelBroken,
                    {{"model", package.contract().name},
                     {"version", package.contract().version},
                     {"file", std::string(what)}});
}

absl::StatusOr<StageWeights> LoadWeightsFile(const ModelPackage& package,
                                             const std::string& path,
                                             c10::Device device) {
  if (path.empty()) return StageWeights();
  PIPESTAGE_ASSIGN_OR_RETURN(const auto file, package.OpenFile(path));
  absl::StatusOr<StageWeights> weights = LoadWeights(file, device);
  if (!weights.ok()) return Broken(package, path, weights.status());
  return weights;
}

std::string NameOf(const ProgramRef& program) {
  return program.kind == ProgramRef::Kind::kModule
             ? absl::StrCat("module ", program.module)
             : program.file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TorchStageLoader>> TorchStageLoader::Create(
    const Options& options) {
  if (options.intra_op_threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("intra-op threads are ", options.intra_op_threads,
                     "; there must be at least 1"));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(const c10::Device device,
                             OpenDevice(options.device));
  at::set_num_threads(options.intra_op_threads);
  return std::unique_ptr<TorchStageLoader>(
      new TorchStageLoader(options, device));
}

// A package is someone else's data: whatever it makes LibTorch throw, the
// worker lives on.
absl::StatusOr<std::unique_ptr<StageProgram>> TorchStageLoader::LoadProgram(
    const ModelPackage& package, const ProgramRef& program,
    const std::string& weights_file,
    const std::vector<std::string>& keywords) const {
  return CallTorch("loading", [&] {
    return ReadProgram(package, program, weights_file, keywords);
  });
}

absl::StatusOr<std::unique_ptr<StageProgram>> TorchStageLoader::ReadProgram(
    const ModelPackage& package, const ProgramRef& program,
    const std::string& weights_file,
    const std::vector<std::string>& keywords) const {
  if (program.kind == ProgramRef::Kind::kTorchScript) {
    if (!options_.allow_torchscript) {
      return absl::FailedPreconditionError(
          "it is a TorchScript archive, which is code; workers load those only "
          "with --allow-torchscript");
    }
    PIPESTAGE_ASSIGN_OR_RETURN(const auto file, package.OpenFile(program.file));
    return LoadTorchScript(file->bytes(), device_);
  }
  PIPESTAGE_ASSIGN_OR_RETURN(StageWeights weights,
                             LoadWeightsFile(package, weights_file, device_));
  if (program.kind == ProgramRef::Kind::kModule) {
    return ModuleProgram::Load(ModuleRegistry::Global(), program.module,
                               program.params_json, std::move(weights),
                               device_);
  }
  PIPESTAGE_ASSIGN_OR_RETURN(const auto file, package.OpenFile(program.file));
  return ExportedProgram::Load(file->bytes(), weights, {device_, keywords});
}

absl::StatusOr<std::unique_ptr<Stage>> TorchStageLoader::LoadStage(
    const ModelPackage& package, StageIndex stage) {
  const PackageContract& contract = package.contract();
  if (stage.value() < 0 ||
      stage.value() >= static_cast<int>(contract.stages.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(package.ToString(), " has ", contract.stages.size(),
                     " stages; there is no stage ", stage.value()));
  }
  const StageContract& wanted = contract.stages[stage.value()];
  absl::StatusOr<std::unique_ptr<StageProgram>> program = LoadProgram(
      package, wanted.program, wanted.weights_file, wanted.keyword_inputs);
  absl::Status status = program.status();
  if (status.ok() && (*program)->signature() != nullptr) {
    status = CheckStageProgram(contract, wanted, *(*program)->signature());
  }
  if (!status.ok()) {
    if (GetErrorInfo(status)) return status;  // names the file already
    return Broken(package, NameOf(wanted.program), status);
  }
  return std::make_unique<TorchStage>(*std::move(program), device_);
}

absl::StatusOr<std::unique_ptr<LossFunction>> TorchStageLoader::LoadLoss(
    const ModelPackage& package) {
  const PackageContract& contract = package.contract();
  if (!contract.loss) {
    return absl::FailedPreconditionError(
        absl::StrCat(package.ToString(), " has no loss"));
  }
  std::unique_ptr<StageProgram> program;
  std::string what = "loss";
  if (contract.loss->kind == LossContract::Kind::kProgram) {
    what = NameOf(contract.loss->program);
    auto loaded = LoadProgram(package, contract.loss->program,
                              contract.loss->weights_file, {});
    if (!loaded.ok()) {
      if (GetErrorInfo(loaded.status())) return loaded.status();
      return Broken(package, what, loaded.status());
    }
    program = *std::move(loaded);
  }
  auto loss = CallTorch("preparing it", [&] {
    return MakeTorchLoss(contract, std::move(program), device_);
  });
  if (!loss.ok()) return Broken(package, what, loss.status());
  return loss;
}

absl::StatusOr<Buffer> TorchStageLoader::Allocate(size_t size) {
  if (!device_.is_cuda()) return Buffer::Allocate(size);
  return CallTorch("allocating a buffer", [&]() -> absl::StatusOr<Buffer> {
    // The caching allocator aligns to 512 bytes.
    auto owner = std::make_shared<at::Tensor>(
        at::empty({static_cast<int64_t>(size)},
                  at::TensorOptions().dtype(c10::kByte).device(device_)));
    void* const data = size == 0 ? nullptr : owner->mutable_data_ptr();
    return Buffer(std::move(owner), data, size);
  });
}

DeviceKind TorchStageLoader::device() const {
  return device_.is_cuda() ? DeviceKind::kCuda : DeviceKind::kHost;
}

absl::StatusOr<HostTensor> TorchStageLoader::ToHost(const StageTensor& tensor) {
  if (tensor.device == DeviceKind::kHost) {
    return HostTensor{tensor.dtype, tensor.shape, tensor.data};
  }
  auto host = CallTorch("copying a tensor to the host",
                        [&]() -> absl::StatusOr<HostTensor> {
                          // Waits for what computes the tensor, and so is where
                          // a kernel's error shows.
                          const StageTensor copy =
                              FromTorch(ToTorch(tensor, device_).to(c10::kCPU));
                          return HostTensor{copy.dtype, copy.shape, copy.data};
                        });
  if (!host.ok()) EndProcessIfLost(device_, host.status());
  return host;
}

std::string TorchStageLoader::DescribeDevice() const {
  return pipestage::DescribeDevice(device_);
}

}  // namespace pipestage
