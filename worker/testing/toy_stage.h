#ifndef PIPESTAGE_WORKER_TESTING_TOY_STAGE_H_
#define PIPESTAGE_WORKER_TESTING_TOY_STAGE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "package/contract.h"
#include "worker/stage.h"

namespace pipestage {

// Called by the compute thread before each forward: to block, to count, to
// fail.
using BeforeForward = std::function<absl::Status(StageIndex stage)>;

// Stages in closed form, without a framework, driven by the package's contract:
// a program {"kind": "module", "name": <below>, "params": {...}}.
//
//   digit        10*x + s
//   affine       scale*x + bias; 1 and 0 if not given
//   boom         digit; Aborted("boom") if an element of x is `at`
//   wrong_shape  digit; if an element of x is `at` (or without `at`), the last
//                axis is one short
//   pair         two outputs: 10*x + s, and x
//   join         x0 + x1 of two inputs
//   odd_rows     the rows of x whose first element is odd: an output ["?", ...]
//
// x is the first positional input. A keyword input named "scale" multiplies,
// any other is added; both are 0-dim or have x's shape. Elements are computed
// as doubles and have the contract's output dtype.
absl::StatusOr<std::unique_ptr<Stage>> MakeToyStage(
    const StageContract& contract, BeforeForward before_forward = nullptr);

// mean_squared_error; or a program of module "row_loss": the sum of a row's
// elements of output 0, weight 1 a row.
absl::StatusOr<std::unique_ptr<LossFunction>> MakeToyLoss(
    const PackageContract& contract);

// Loads the above. Opens (and so verifies) the weights a stage names.
// Thread-safe.
class ToyStageLoader : public StageLoader {
 public:
  explicit ToyStageLoader(BeforeForward before_forward = nullptr)
      : before_forward_(std::move(before_forward)) {}

  absl::StatusOr<std::unique_ptr<Stage>> LoadStage(const ModelPackage& package,
                                                   StageIndex stage) override;
  absl::StatusOr<std::unique_ptr<LossFunction>> LoadLoss(
      const ModelPackage& package) override;
  absl::StatusOr<Buffer> Allocate(size_t size) override;
  DeviceKind device() const override { return DeviceKind::kHost; }
  absl::StatusOr<HostTensor> ToHost(const StageTensor& tensor) override;
  std::string DescribeDevice() const override { return "cpu"; }

  // Calls of Allocate so far.
  int allocations() const { return allocations_; }

 private:
  const BeforeForward before_forward_;
  std::atomic<int> allocations_ = 0;
};

// Elements as doubles, whatever the dtype (integers, bool, float32 or float64),
// and back.
std::vector<double> ToyElements(const StageTensor& tensor);
StageTensor MakeToyTensor(DType dtype, Shape shape,
                          absl::Span<const double> elements);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TESTING_TOY_STAGE_H_
