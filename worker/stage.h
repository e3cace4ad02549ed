#ifndef PIPESTAGE_WORKER_STAGE_H_
#define PIPESTAGE_WORKER_STAGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "package/model_package.h"
#include "tensor/exact_sum.h"
#include "tensor/host_tensor.h"
#include "worker/stage_tensor.h"

namespace pipestage {

// A part of a model, ready to run. Names no framework: worker/torch implements
// it over LibTorch, worker/testing in closed form.
//
// Used by one thread at a time. Exceptions never leave it.
class Stage {
 public:
  virtual ~Stage() = default;

  // Computes one microbatch in evaluation mode. Leaves no trace: parameters,
  // buffers, random state, gradients and module modes are afterwards what they
  // were, also on error.
  //
  // `inputs`: positional, then keyword, in the contract's order; on the host or
  // on the worker's device. Not written to.
  // Returns the outputs in the contract's order: contiguous, on the worker's
  // device, sharing bytes with nothing that outlives the call (not with inputs,
  // parameters or each other).
  // Errors: whatever the framework said, as Aborted; ResourceExhausted if out
  // of memory.
  virtual absl::StatusOr<std::vector<StageTensor>> Forward(
      absl::Span<const StageTensor> inputs) = 0;

  virtual int64_t weight_bytes() const = 0;
};

// The losses of one microbatch.
struct MicrobatchLossValue {
  LossSum total;
  // One entry for each row, only if asked for.
  std::vector<double> row_sums;
  std::vector<int64_t> row_weights;
};

// A model's loss, evaluated where its last stage lives. Same rules as Stage.
class LossFunction {
 public:
  virtual ~LossFunction() = default;

  // `outputs` of the last stage and `targets`, each in the contract's order;
  // `rows` of this microbatch.
  virtual absl::StatusOr<MicrobatchLossValue> Compute(
      absl::Span<const StageTensor> outputs,
      absl::Span<const StageTensor> targets, int64_t rows, bool want_rows) = 0;
};

// Makes stages from a package, and knows the device they run on. Thread-safe.
class StageLoader {
 public:
  virtual ~StageLoader() = default;

  // Errors: FailedPrecondition (MODEL_BROKEN) naming file and reason: a digest
  // or a contract that does not hold, an operator that is not admitted, a
  // module that is not registered.
  virtual absl::StatusOr<std::unique_ptr<Stage>> LoadStage(
      const ModelPackage& package, StageIndex stage) = 0;
  // The package must have a loss.
  virtual absl::StatusOr<std::unique_ptr<LossFunction>> LoadLoss(
      const ModelPackage& package) = 0;

  // Memory on the stages' device for receiving: 64-byte aligned, uninitialised.
  virtual absl::StatusOr<Buffer> Allocate(size_t size) = 0;
  virtual DeviceKind device() const = 0;
  // A copy in host memory; the tensor itself if it is there already.
  virtual absl::StatusOr<HostTensor> ToHost(const StageTensor& tensor) = 0;
  // "cpu", "cuda:0 NVIDIA H200".
  virtual std::string DescribeDevice() const = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_STAGE_H_
