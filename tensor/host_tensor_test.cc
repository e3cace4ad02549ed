#include "tensor/host_tensor.h"

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(HostTensorTest, ShapesReadAsLists) {
  EXPECT_EQ(ShapeToString({}), "[]");
  EXPECT_EQ(ShapeToString({8, 16}), "[8,16]");
  EXPECT_EQ(Describe(DType::kFloat32, {8, 16}), "float32 [8,16]");
}

TEST(HostTensorTest, ElementsAndBytesAreProducts) {
  EXPECT_THAT(NumElements({}), IsOkAndHolds(1));
  EXPECT_THAT(NumElements({2, 3, 4}), IsOkAndHolds(24));
  EXPECT_THAT(NumBytes(DType::kInt64, {2, 3}), IsOkAndHolds(48));
  EXPECT_THAT(NumBytes(DType::kBool, {}), IsOkAndHolds(1));
}

TEST(HostTensorTest, EmptyTensorsHaveNoBytesWhateverTheOtherAxes) {
  EXPECT_THAT(NumElements({0}), IsOkAndHolds(0));
  EXPECT_THAT(NumElements({int64_t{1} << 62, 4, 0}), IsOkAndHolds(0));
}

TEST(HostTensorTest, NegativeDimensionIsRefusedEvenBesideAZero) {
  EXPECT_THAT(NumElements({2, -1}), StatusIs(kInvalid, HasSubstr("[2,-1]")));
  EXPECT_THAT(NumElements({0, -1}), StatusIs(kInvalid, HasSubstr("negative")));
}

TEST(HostTensorTest, OverflowIsRefused) {
  EXPECT_THAT(NumElements({int64_t{1} << 62, 4}),
              StatusIs(kInvalid, HasSubstr("2^63")));
  EXPECT_THAT(NumElements({int64_t{1} << 62, 1}),
              IsOkAndHolds(int64_t{1} << 62));
  EXPECT_THAT(NumBytes(DType::kFloat32, {int64_t{1} << 62}),
              StatusIs(kInvalid, HasSubstr("float32")));
}

TEST(HostTensorTest, NinthDimensionIsRefused) {
  EXPECT_THAT(NumElements(Shape(8, 1)), IsOkAndHolds(1));
  EXPECT_THAT(NumElements(Shape(9, 1)),
              StatusIs(kInvalid, HasSubstr("9 dimensions")));
}

}  // namespace
}  // namespace pipestage
