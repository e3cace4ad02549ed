#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "worker/testing/toy_stage.h"

namespace pipestage {
namespace {

// Adds up what each row's elements lose.
class ToyLoss : public LossFunction {
 public:
  // Of output `prediction` against `target`; without a target the elements
  // themselves are the losses, and a row counts once.
  ToyLoss(int prediction, std::optional<int> target)
      : prediction_(prediction), target_(target) {}

  absl::StatusOr<MicrobatchLossValue> Compute(
      absl::Span<const StageTensor> outputs,
      absl::Span<const StageTensor> targets, int64_t rows,
      bool want_rows) override {
    std::vector<double> losses = ToyElements(outputs[prediction_]);
    if (target_.has_value()) {
      const std::vector<double> t = ToyElements(targets[*target_]);
      if (t.size() != losses.size()) {
        return absl::AbortedError(absl::StrCat(
            "loss: ", losses.size(), " predictions, ", t.size(), " targets"));
      }
      for (size_t i = 0; i < losses.size(); ++i) {
        losses[i] = (losses[i] - t[i]) * (losses[i] - t[i]);
      }
    }
    return AddUp(losses, rows, want_rows);
  }

 private:
  MicrobatchLossValue AddUp(const std::vector<double>& losses, int64_t rows,
                            bool want_rows) const {
    MicrobatchLossValue value;
    const size_t per_row = losses.size() / rows;
    for (int64_t row = 0; row < rows; ++row) {
      ExactSum sum;
      for (size_t i = 0; i < per_row; ++i) sum.Add(losses[row * per_row + i]);
      const int64_t weight = target_.has_value() ? per_row : 1;
      value.total.sum.Add(sum);
      value.total.weight += weight;
      if (!want_rows) continue;
      value.row_sums.push_back(sum.Round());
      value.row_weights.push_back(weight);
    }
    return value;
  }

  const int prediction_;
  const std::optional<int> target_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LossFunction>> MakeToyLoss(
    const PackageContract& contract) {
  const LossContract& loss = *contract.loss;
  if (loss.kind == LossContract::Kind::kMeanSquaredError) {
    return std::make_unique<ToyLoss>(*contract.OutputIndex(loss.prediction),
                                     contract.TargetIndex(loss.target));
  }
  if (loss.kind == LossContract::Kind::kProgram &&
      loss.program.module == "row_loss") {
    return std::make_unique<ToyLoss>(0, std::nullopt);
  }
  return WithReason(absl::FailedPreconditionError("no such toy loss"),
                    reason::kModelBroken);
}

}  // namespace pipestage
