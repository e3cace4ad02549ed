#include "worker/call_shapes.h"

#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/testing/toy_pipeline.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

PackageContract Contract() {
  ToyPipeline pipeline = DigitPipeline(2);
  pipeline.width = 3;
  pipeline.scalars = {"scale"};
  pipeline.stages[1].keywords = {"scale"};
  return *ParseContract(ToyPipelineJson(pipeline));
}

TEST(CallShapesTest, LargerAndSmallerMicrobatchesHaveTheirOwnShapes) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const auto shapes, CallShapes::Resolve(Contract(), Sizes(), 7, 3));

  const StageIndex stage(1);
  EXPECT_EQ(shapes->outputs(stage, MicrobatchIndex(0)).tensors[0].shape,
            Shape({3, 3}));
  EXPECT_EQ(shapes->outputs(stage, MicrobatchIndex(2)).tensors[0].shape,
            Shape({2, 3}));
  EXPECT_EQ(shapes->outputs(stage, MicrobatchIndex(2)).payload_bytes, 48);
  EXPECT_EQ(shapes->argument(0, MicrobatchIndex(1)).bytes, 48);
  EXPECT_EQ(shapes->argument(1, MicrobatchIndex(1)).bytes, 8);
  EXPECT_NE(shapes->outputs(stage, MicrobatchIndex(0)).digest,
            shapes->outputs(stage, MicrobatchIndex(2)).digest);
}

TEST(CallShapesTest, EvenSplitHasOneSize) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const auto shapes, CallShapes::Resolve(Contract(), Sizes(), 6, 3));

  for (int m = 0; m < 3; ++m) {
    EXPECT_EQ(shapes->argument(0, MicrobatchIndex(m)).shape, Shape({2, 3}));
  }
}

TEST(CallShapesTest, MoreMicrobatchesThanRowsIsRefused) {
  EXPECT_THAT(CallShapes::Resolve(Contract(), Sizes(), 2, 3),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("2 rows; its plan has 3 microbatches")));
}

TEST(CallShapesTest, KnowsForWhichCallsItServes) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const auto shapes, CallShapes::Resolve(Contract(), Sizes(), 6, 3));
  Sizes other;
  other.Set("seq", 3);

  EXPECT_TRUE(shapes->IsFor(Sizes(), 6));
  EXPECT_FALSE(shapes->IsFor(Sizes(), 7));
  EXPECT_FALSE(shapes->IsFor(other, 6));
}

}  // namespace
}  // namespace pipestage
