#include "coordinator/eval_setup.h"

#include "base/error_info.h"
#include "base/status_matchers.h"
#include "coordinator/testing/test_models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/tensor_codec.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class EvalSetupTest : public ::testing::Test {
 protected:
  void Open(const TestModel& model) {
    WriteTestModel(repository_, model);
    auto package = ModelPackage::Open(repository_, model.name, model.version);
    ASSERT_THAT(package, IsOk());
    model_.package = *std::move(package);
    model_.placement = *PlaceStages(model.num_stages, 2, 0);
  }

  static CallInputs InputsOf(int rows) {
    CallInputs inputs;
    inputs.inputs["x"] = *DecodeTensor("x", Rows(rows));
    return inputs;
  }

  const std::string repository_ = MakeTempDir();
  LoadedModel model_;
  v1::CallOptions options_;
};

TEST_F(EvalSetupTest, DefaultsAreThePackages) {
  Open({});

  const auto setup = SetUpEval(model_, options_, InputsOf(9));

  ASSERT_THAT(setup, IsOk());
  EXPECT_EQ(setup->microbatches.count(), 4);
  EXPECT_EQ(setup->plan.schedule, "1F1B");
  EXPECT_EQ(setup->plan.num_ranks, 2);
  EXPECT_EQ(setup->binding.rows, 9);
  EXPECT_FALSE(setup->with_loss);
  EXPECT_TRUE(setup->outputs.empty());
  EXPECT_EQ(setup->reply_bytes, 0);
}

TEST_F(EvalSetupTest, MicrobatchesAreLoweredToTheRows) {
  Open({});
  options_.set_num_microbatches(1'000'000);

  EXPECT_EQ(SetUpEval(model_, options_, InputsOf(3))->microbatches.count(), 3);
}

TEST_F(EvalSetupTest, RowsOfAMicrobatchGiveTheirNumber) {
  Open({});
  options_.set_microbatch_rows(4);

  EXPECT_EQ(SetUpEval(model_, options_, InputsOf(8))->microbatches.count(), 2);
  EXPECT_EQ(SetUpEval(model_, options_, InputsOf(9))->microbatches.count(), 3);
  options_.set_microbatch_rows(100);
  EXPECT_EQ(SetUpEval(model_, options_, InputsOf(9))->microbatches.count(), 1);
}

TEST_F(EvalSetupTest, TooManyMicrobatchesAreRefused) {
  Open({});
  options_.set_microbatch_rows(1);

  EXPECT_THAT(SetUpEval(model_, options_, InputsOf(70'000)),
              StatusIs(kInvalid, HasSubstr("limit is 65536")));
}

TEST_F(EvalSetupTest, OutputsAreLaidOutBeforeTheyAreComputed) {
  Open({});
  options_.set_return_outputs(true);
  options_.set_num_microbatches(2);

  const auto setup = SetUpEval(model_, options_, InputsOf(5));

  ASSERT_THAT(setup, IsOk());
  ASSERT_EQ(setup->outputs.size(), 1);
  const OutputLayout& y = setup->outputs[0];
  EXPECT_THAT(y.merged, ElementsAre(5, 1));
  EXPECT_THAT(y.large_part, ElementsAre(3, 1));
  EXPECT_THAT(y.small_part, ElementsAre(2, 1));
  EXPECT_EQ(setup->reply_bytes, 40);
}

TEST_F(EvalSetupTest, RowLossesNeedALoss) {
  Open({});
  options_.set_return_row_losses(true);

  const auto setup = SetUpEval(model_, options_, InputsOf(2));

  EXPECT_THAT(setup, StatusIs(kInvalid, HasSubstr("has no loss")));
  EXPECT_EQ(GetReason(setup.status()), reason::kInvalidInput);
}

TEST_F(EvalSetupTest, ModelWithALossNeedsTargets) {
  Open({.with_loss = true});
  EXPECT_THAT(SetUpEval(model_, options_, InputsOf(2)), StatusIs(kInvalid));
  CallInputs inputs = InputsOf(2);
  inputs.targets["t"] = *DecodeTensor("t", Rows(2));

  const auto setup = SetUpEval(model_, options_, inputs);

  ASSERT_THAT(setup, IsOk());
  EXPECT_TRUE(setup->with_loss);
}

}  // namespace
}  // namespace pipestage
