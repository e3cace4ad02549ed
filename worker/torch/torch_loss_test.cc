#include "worker/torch/torch_loss.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ops/arange.h"
#include "ATen/ops/full.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/tensor.h"
#include "ATen/ops/zeros.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/torch/testdata/fixtures.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A loss program in C++.
class FunctionProgram : public StageProgram {
 public:
  using Function =
      std::function<std::vector<at::Tensor>(absl::Span<const at::Tensor>)>;
  explicit FunctionProgram(Function function)
      : function_(std::move(function)) {}

  absl::StatusOr<std::vector<at::Tensor>> Run(
      absl::Span<const at::Tensor> inputs) override {
    return function_(inputs);
  }
  const ProgramSignature* signature() const override { return nullptr; }
  const StorageSet& state() const override { return state_; }
  int64_t weight_bytes() const override { return 0; }

 private:
  const Function function_;
  const StorageSet state_;
};

PackageContract Contract(LossContract::Kind kind,
                         std::optional<int> target_axis = 0) {
  PackageContract contract;
  contract.outputs.resize(2);
  contract.outputs[0].name = "other";
  contract.outputs[1].name = "prediction";
  contract.outputs[1].axis = std::nullopt;
  contract.targets.resize(1);
  contract.targets[0].name = "target";
  contract.targets[0].axis = target_axis;
  contract.loss.emplace();
  contract.loss->kind = kind;
  contract.loss->prediction = "prediction";
  contract.loss->target = "target";
  contract.loss->inputs = {"prediction", "target"};
  return contract;
}

absl::StatusOr<MicrobatchLossValue> Compute(
    const PackageContract& contract, const at::Tensor& prediction,
    const at::Tensor& target, int64_t rows, bool want_rows = false,
    FunctionProgram::Function program = nullptr) {
  auto loss = MakeTorchLoss(
      contract,
      program ? std::make_unique<FunctionProgram>(std::move(program)) : nullptr,
      c10::kCPU);
  if (!loss.ok()) return loss.status();
  const std::vector<StageTensor> outputs = {FromTorch(at::ones({})),
                                            FromTorch(prediction)};
  const std::vector<StageTensor> targets = {FromTorch(target)};
  return (*loss)->Compute(outputs, targets, rows, want_rows);
}

at::Tensor Torch(const HostTensor& tensor) {
  return ToTorch(StageTensor::FromHost(tensor), c10::kCPU);
}

constexpr auto kCrossEntropy = LossContract::Kind::kCrossEntropy;
constexpr auto kSquaredError = LossContract::Kind::kMeanSquaredError;
constexpr auto kProgram = LossContract::Kind::kProgram;

// The exact sum of float32 elements where `counts` (bool) is set.
ExactSum SumOf(const HostTensor& losses, const HostTensor* counts = nullptr) {
  ExactSum sum;
  const float* const values =
      reinterpret_cast<const float*>(losses.data.data());
  for (size_t i = 0; i < losses.data.size() / sizeof(float); ++i) {
    if (counts == nullptr || counts->data.data()[i] != std::byte{0}) {
      sum.Add(values[i]);
    }
  }
  return sum;
}

TEST(TorchLossTest, CrossEntropyIsTheExactSumOfPythonsElements) {
  for (const FixtureRun& run : FixtureNamed("cross_entropy").runs) {
    const int64_t rows = run.inputs[0].shape[0];

    PIPESTAGE_ASSERT_OK_AND_ASSIGN(
        const auto value, Compute(Contract(kCrossEntropy), Torch(run.inputs[0]),
                                  Torch(run.inputs[1]), rows));

    EXPECT_EQ(value.total.sum.partials(),
              SumOf(run.outputs[0], &run.outputs[1]).partials());
    EXPECT_EQ(value.total.weight, Torch(run.outputs[1]).sum().item<int64_t>());
    EXPECT_EQ(value.total.nonfinite, 0);
  }
}

TEST(TorchLossTest, SquaredErrorIsTheExactSumOfPythonsElements) {
  const FixtureRun& run = FixtureNamed("squared_error").runs[0];

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const auto value, Compute(Contract(kSquaredError), Torch(run.inputs[0]),
                                Torch(run.inputs[1]), 4));

  EXPECT_EQ(value.total.sum.partials(), SumOf(run.outputs[0]).partials());
  EXPECT_EQ(value.total.weight, 24);
}

TEST(TorchLossTest, RowsAddUpToTheWholeWhateverAxisTheyLieOn) {
  const FixtureRun& run = FixtureNamed("cross_entropy").runs[0];
  const at::Tensor logits = Torch(run.inputs[0]);
  const at::Tensor targets = Torch(run.inputs[1]);

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const auto first,
      Compute(Contract(kCrossEntropy, 0), logits, targets, 4, true));
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const auto second,
      Compute(Contract(kCrossEntropy, 1), logits.transpose(0, 1).contiguous(),
              targets.t().contiguous(), 4, true));

  EXPECT_EQ(first.row_sums, second.row_sums);
  EXPECT_THAT(first.row_weights, ElementsAre(5, 2, 5, 5));
  EXPECT_EQ(second.row_weights, first.row_weights);
  EXPECT_EQ(first.total.sum.partials(), second.total.sum.partials());
  for (int row = 0; row < 4; ++row) {
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(
        const auto alone,
        Compute(Contract(kCrossEntropy), logits.narrow(0, row, 1).contiguous(),
                targets.narrow(0, row, 1).contiguous(), 1));
    EXPECT_EQ(first.row_sums[row], alone.total.sum.Round());
  }
}

TEST(TorchLossTest, HalfPrecisionLogitsAreComputedInFloat32) {
  const FixtureRun& run = FixtureNamed("cross_entropy").runs[1];
  const at::Tensor logits = Torch(run.inputs[0]).to(at::kBFloat16);
  const at::Tensor targets = Torch(run.inputs[1]);

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const auto half, Compute(Contract(kCrossEntropy), logits, targets, 7));
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const auto full, Compute(Contract(kCrossEntropy), logits.to(at::kFloat),
                               targets.to(at::kInt), 7));

  EXPECT_EQ(half.total.sum.partials(), full.total.sum.partials());
}

TEST(TorchLossTest, ManyLogitsComeInBlocksThatChangeNothing) {
  const int64_t classes = 50'000;
  const at::Tensor logits = at::arange(64 * classes, at::kFloat)
                                .remainder(977)
                                .div(100)
                                .reshape({64, classes});
  const at::Tensor targets = at::arange(64, at::kLong).mul(701);
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const auto whole, Compute(Contract(kCrossEntropy), logits, targets, 64));

  LossSum parts;
  for (int row = 0; row < 64; ++row) {
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(
        const auto part,
        Compute(Contract(kCrossEntropy), logits.narrow(0, row, 1).clone(),
                targets.narrow(0, row, 1).clone(), 1));
    parts.Add(part.total);
  }

  EXPECT_EQ(whole.total.sum.partials(), parts.sum.partials());
}

TEST(TorchLossTest, ATargetThatIsNoClassIsNamed) {
  const at::Tensor logits = at::zeros({2, 3, 4});
  at::Tensor targets = at::zeros({2, 3}, at::kLong);
  targets[1][2] = 4;

  EXPECT_THAT(
      Compute(Contract(kCrossEntropy), logits, targets, 2),
      StatusIs(absl::StatusCode::kAborted, HasSubstr("target 4 (element 5")));

  targets[1][2] = -1;
  EXPECT_THAT(Compute(Contract(kCrossEntropy), logits, targets, 2),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("target -1")));
}

TEST(TorchLossTest, NothingThatCountsIsWeightZero) {
  const at::Tensor nan =
      at::full({2, 4}, std::numeric_limits<float>::quiet_NaN());

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const auto value, Compute(Contract(kCrossEntropy), nan,
                                at::full({2}, -100, at::kLong), 2, true));

  EXPECT_EQ(value.total.weight, 0);
  EXPECT_EQ(value.total.nonfinite, 0);
  EXPECT_EQ(value.total.sum.Round(), 0);
  EXPECT_THAT(value.row_weights, ElementsAre(0, 0));
}

TEST(TorchLossTest, NonFiniteLossesAreCounted) {
  const at::Tensor prediction =
      at::tensor({1.0f, std::numeric_limits<float>::infinity()});

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const auto value,
      Compute(Contract(kSquaredError), prediction, at::zeros({2}), 2, true));

  EXPECT_EQ(value.total.nonfinite, 1);
  EXPECT_TRUE(std::isinf(value.total.sum.Round()));
  EXPECT_EQ(value.row_sums[0], 1);
}

TEST(TorchLossTest, ShapesThatDoNotFitAreNamed) {
  EXPECT_THAT(Compute(Contract(kCrossEntropy), at::zeros({2, 4}),
                      at::zeros({3}, at::kLong), 2),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("Float [2,4] and Long [3]")));
  EXPECT_THAT(
      Compute(Contract(kSquaredError), at::zeros({2, 1}), at::zeros({2, 3}), 2),
      StatusIs(absl::StatusCode::kAborted, HasSubstr("[2,1]")));
}

TEST(TorchLossTest, AProgramsWeightsMultiplyItsLosses) {
  const auto program = [](absl::Span<const at::Tensor> in) {
    return std::vector<at::Tensor>{in[0], in[1]};
  };
  const at::Tensor losses =
      at::tensor({0.5, 0.25, NAN, 0.1}, at::kDouble).reshape({2, 2});
  const at::Tensor weights = at::tensor({2, 1, 0, 3}).reshape({2, 2});

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const auto value,
      Compute(Contract(kProgram), losses, weights, 2, true, program));

  ExactSum expected;
  for (const double term : {0.5, 0.5, 0.25, 0.1, 0.1, 0.1}) expected.Add(term);
  EXPECT_EQ(value.total.sum.partials(), expected.partials());
  EXPECT_EQ(value.total.weight, 6);
  EXPECT_EQ(value.total.nonfinite, 0);
  EXPECT_THAT(value.row_sums, ElementsAre(1.25, 0.1 * 3));
  EXPECT_THAT(value.row_weights, ElementsAre(3, 3));
}

TEST(TorchLossTest, AProgramsResultsAreChecked) {
  const auto result = [](std::vector<at::Tensor> tensors) {
    return Compute(Contract(kProgram), at::ones({2}), at::ones({2}), 2, false,
                   [tensors](absl::Span<const at::Tensor>) { return tensors; });
  };
  const auto refused = [](const char* what) {
    return StatusIs(absl::StatusCode::kAborted, HasSubstr(what));
  };

  EXPECT_THAT(result({at::ones({3})}), refused("Float [3]"));
  EXPECT_THAT(result({at::ones({})}), refused("Float []"));
  EXPECT_THAT(result({at::ones({2}, at::kLong)}), refused("Long [2]"));
  EXPECT_THAT(result({at::ones({2}), at::ones({2})}), refused("integers"));
  EXPECT_THAT(result({at::ones({2}), at::ones({1}, at::kBool)}),
              refused("[1]"));
  EXPECT_THAT(result({at::ones({2}), at::full({2}, -1, at::kLong)}),
              refused("weight -1"));
  EXPECT_THAT(result({}), refused("0 tensors"));
}

TEST(TorchLossTest, RowsWithoutAnAxisHaveNoLosses) {
  EXPECT_THAT(Compute(Contract(kSquaredError, std::nullopt), at::ones({2}),
                      at::ones({2}), 2, true),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("axis of rows")));
}

TEST(TorchLossTest, ANameThatIsNoOutputOrTargetIsRefused) {
  PackageContract contract = Contract(kCrossEntropy);
  contract.loss->target = "nothing";

  EXPECT_THAT(MakeTorchLoss(contract, nullptr, c10::kCPU),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("\"nothing\"")));
}

TEST(TorchLossTest, AHundredThousandElementsTakeMilliseconds) {
  const at::Tensor prediction =
      at::arange(100'000, at::kFloat).remainder(977).div(100);
  const at::Tensor target = at::zeros({100'000});
  double best_s = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ASSERT_THAT(Compute(Contract(kSquaredError), prediction, target, 100'000),
                IsOk());
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    best_s = std::min(best_s, took.count());
  }

  RecordProperty("best_ms", std::to_string(best_s * 1e3));
  // Generous: machines that run tests are busy.
  EXPECT_LT(best_s, 0.05);
}

}  // namespace
}  // namespace pipestage
