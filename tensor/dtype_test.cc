#include "tensor/dtype.h"

#include <string>

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

TEST(DTypeTest, EveryProtoValueHasANameThatLeadsBack) {
  for (int value = v1::DType_MIN + 1; value <= v1::DType_MAX; ++value) {
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(const DType dtype, DTypeFromProto(value));
    EXPECT_EQ(ToProto(dtype), value);
    EXPECT_EQ(DTypeFromName(DTypeName(dtype)), dtype);
  }
}

TEST(DTypeTest, SizesAreThoseOfTheNames) {
  EXPECT_EQ(ElementSize(DType::kBool), 1);
  EXPECT_EQ(ElementSize(DType::kUint8), 1);
  EXPECT_EQ(ElementSize(DType::kInt16), 2);
  EXPECT_EQ(ElementSize(DType::kBFloat16), 2);
  EXPECT_EQ(ElementSize(DType::kFloat32), 4);
  EXPECT_EQ(ElementSize(DType::kInt64), 8);
  EXPECT_EQ(DTypeName(DType::kBFloat16), "bfloat16");
}

TEST(DTypeTest, OnlyFloatsAreFloatingPoint) {
  EXPECT_TRUE(IsFloatingPoint(DType::kFloat16));
  EXPECT_TRUE(IsFloatingPoint(DType::kBFloat16));
  EXPECT_FALSE(IsFloatingPoint(DType::kBool));
  EXPECT_FALSE(IsFloatingPoint(DType::kInt64));
}

TEST(DTypeTest, UnknownNamesAndNumbersAreRefused) {
  EXPECT_EQ(DTypeFromName("complex64"), std::nullopt);
  EXPECT_EQ(DTypeFromName(""), std::nullopt);
  EXPECT_THAT(DTypeFromProto(0), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("unspecified")));
  EXPECT_THAT(DTypeFromProto(11),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("11")));
  EXPECT_THAT(DTypeFromProto(-1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-1")));
}

}  // namespace
}  // namespace pipestage
