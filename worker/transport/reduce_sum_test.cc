#include "worker/transport/reduce_sum.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::vector<T> Sum(DType dtype, const std::vector<std::vector<T>>& inputs) {
  std::vector<const void*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  std::vector<T> out(inputs[0].size());
  EXPECT_THAT(SumElements(dtype, pointers, out.size(), out.data()), IsOk());
  return out;
}

TEST(SumElementsTest, AddsEachDType) {
  EXPECT_THAT(Sum<float>(DType::kFloat32, {{1, 2}, {3, 4}, {5, 6}}),
              ElementsAre(9, 12));
  EXPECT_THAT(Sum<double>(DType::kFloat64, {{0.25}, {0.5}}), ElementsAre(0.75));
  EXPECT_THAT(Sum<int64_t>(DType::kInt64, {{-5, 1}, {3, 1}}),
              ElementsAre(-2, 2));
  EXPECT_THAT(Sum<int32_t>(DType::kInt32, {{7}, {-9}}), ElementsAre(-2));
  EXPECT_THAT(Sum<int16_t>(DType::kInt16, {{7}, {-9}}), ElementsAre(-2));
  EXPECT_THAT(Sum<int8_t>(DType::kInt8, {{7}, {-9}}), ElementsAre(-2));
  EXPECT_THAT(Sum<uint8_t>(DType::kUint8, {{7}, {9}}), ElementsAre(16));
}

TEST(SumElementsTest, IntegersWrap) {
  const int32_t max = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(Sum<int32_t>(DType::kInt32, {{max}, {1}}),
              ElementsAre(std::numeric_limits<int32_t>::min()));
}

TEST(SumElementsTest, BFloat16RoundsOnceToNearestEven) {
  // 1 + 2^-8 + 2^-9 lies above the middle of 1 and 1 + 2^-7; each term alone
  // would be rounded away.
  EXPECT_THAT(Sum<uint16_t>(DType::kBFloat16, {{0x3f80}, {0x3b80}, {0x3b00}}),
              ElementsAre(0x3f81));
  // A tie goes to even.
  EXPECT_THAT(Sum<uint16_t>(DType::kBFloat16, {{0x3f80}, {0x3b80}}),
              ElementsAre(0x3f80));
}

TEST(SumElementsTest, EveryFloat16PlusZeroIsItself) {
  std::vector<uint16_t> all;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bool is_nan = (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0;
    if (!is_nan) all.push_back(bits);
  }
  const std::vector<uint16_t> minus_zeros(all.size(), 0x8000);

  EXPECT_EQ(Sum<uint16_t>(DType::kFloat16, {all, minus_zeros}), all);
}

TEST(SumElementsTest, Float16RoundsToNearestEvenAndToInfinity) {
  // 1 + 2^-11 is a tie: to 1. 1 + 3 * 2^-11 is one: to 1 + 2^-9.
  EXPECT_THAT(
      Sum<uint16_t>(DType::kFloat16, {{0x3c00, 0x3c01}, {0x1000, 0x1000}}),
      ElementsAre(0x3c00, 0x3c02));
  // 65504 + 16 = 65520 rounds to infinity, 65504 + 8 does not.
  EXPECT_THAT(
      Sum<uint16_t>(DType::kFloat16, {{0x7bff, 0x7bff}, {0x4c00, 0x4800}}),
      ElementsAre(0x7c00, 0x7bff));
  // NaN stays one.
  EXPECT_GT(Sum<uint16_t>(DType::kFloat16, {{0x7e01}, {0}})[0], 0x7c00);
}

TEST(SumElementsTest, OutMayBeAnInput) {
  std::vector<float> a(1000, 1.0f), b(1000, 2.0f);
  const std::vector<const void*> inputs = {a.data(), b.data()};

  ASSERT_THAT(SumElements(DType::kFloat32, inputs, b.size(), b.data()), IsOk());

  EXPECT_EQ(b, std::vector<float>(1000, 3.0f));
}

TEST(SumElementsTest, BoolIsRefused) {
  const bool x = true;
  bool out;
  const std::vector<const void*> inputs = {&x};
  EXPECT_THAT(SumElements(DType::kBool, inputs, 1, &out),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace pipestage
