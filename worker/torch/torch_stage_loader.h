#ifndef PIPESTAGE_WORKER_TORCH_TORCH_STAGE_LOADER_H_
#define PIPESTAGE_WORKER_TORCH_TORCH_STAGE_LOADER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "c10/core/Device.h"
#include "worker/stage.h"
#include "worker/torch/stage_program.h"

namespace pipestage {

// Loads stages over LibTorch: exported programs, registered modules and, if
// allowed, TorchScript archives. Thread-safe.
class TorchStageLoader : public StageLoader {
 public:
  struct Options {
    std::string device = "cpu";  // or "cuda:N"
    // Threads of one operator. Results may differ in their last bits with it.
    // It is LibTorch's setting, one a process.
    int intra_op_threads = 1;
    // Such archives are code.
    bool allow_torchscript = false;
  };

  // InvalidArgument for a device that has no such name or a number of threads
  // below 1; FailedPrecondition if the device is not there.
  static absl::StatusOr<std::unique_ptr<TorchStageLoader>> Create(
      const Options& options);

  absl::StatusOr<std::unique_ptr<Stage>> LoadStage(const ModelPackage& package,
                                                   StageIndex stage) override;
  absl::StatusOr<std::unique_ptr<LossFunction>> LoadLoss(
      const ModelPackage& package) override;
  absl::StatusOr<Buffer> Allocate(size_t size) override;
  DeviceKind device() const override;
  absl::StatusOr<HostTensor> ToHost(const StageTensor& tensor) override;
  std::string DescribeDevice() const override;

 private:
  TorchStageLoader(const Options& options, c10::Device device)
      : options_(options), device_(device) {}

  absl::StatusOr<std::unique_ptr<StageProgram>> LoadProgram(
      const ModelPackage& package, const ProgramRef& program,
      const std::string& weights_file,
      const std::vector<std::string>& keywords) const;
  absl::StatusOr<std::unique_ptr<StageProgram>> ReadProgram(
      const ModelPackage& package, const ProgramRef& program,
      const std::string& weights_file,
      const std::vector<std::string>& keywords) const;

  const Options options_;
  const c10::Device device_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_TORCH_STAGE_LOADER_H_
