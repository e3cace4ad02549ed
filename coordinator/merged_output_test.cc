#include "coordinator/merged_output.h"

#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/tensor_codec.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

// Layout and contract of a uint8 output whose parts are of these shapes.
struct Output {
  Output(Shape large, Shape small, std::optional<int> axis, Shape merged) {
    contract.name = "y";
    contract.dtype = DType::kUint8;
    contract.axis = axis;
    layout.contract = &contract;
    layout.stacked = !axis.has_value();
    layout.axis = axis.value_or(0);
    layout.large_part = large;
    layout.small_part = small;
    layout.merged = merged;
    for (const int64_t size : large) layout.data_dependent |= size < 0;
    if (!layout.data_dependent) layout.merged_bytes = *NumElements(merged);
  }
  Output(const Output&) = delete;

  TensorContract contract;
  OutputLayout layout;
};

v1::OutputData Parts(int first, int count, const std::string& data) {
  v1::OutputData parts;
  parts.set_first_microbatch(first);
  parts.set_num_microbatches(count);
  parts.set_data(data);
  return parts;
}

bool AddOk(MergedOutput& merged, v1::OutputData parts) {
  const auto added = merged.Add(parts);
  return added.ok() && *added;
}

const Microbatches kFiveInThree = *Microbatches::Create(5, 3);  // 2, 2, 1
constexpr int64_t kNoLimit = 1 << 20;

TEST(MergedOutputTest, PartsAreJoinedInWhateverOrderTheyCome) {
  const std::string parts[] = {"aabb", "ccdd", "ee"};
  int order[] = {0, 1, 2};
  do {
    Output output({2, 2}, {1, 2}, 0, {5, 2});
    v1::Tensor out;
    MergedOutput merged(output.layout, kFiveInThree, kNoLimit, &out);
    for (const int m : order) {
      ASSERT_TRUE(AddOk(merged, Parts(m, 1, parts[m])));
    }
    ASSERT_TRUE(merged.complete());
    ASSERT_THAT(merged.Finish(), IsOk());
    EXPECT_EQ(out.data(), "aabbccddee");
    EXPECT_EQ(out.shape(0), 5);
  } while (std::next_permutation(std::begin(order), std::end(order)));
}

TEST(MergedOutputTest, SeveralMicrobatchesMayComeAtOnce) {
  Output output({2}, {1}, 0, {5});
  v1::Tensor out;
  MergedOutput merged(output.layout, kFiveInThree, kNoLimit, &out);

  EXPECT_TRUE(AddOk(merged, Parts(1, 2, "cde")));
  EXPECT_TRUE(AddOk(merged, Parts(0, 1, "ab")));

  EXPECT_TRUE(merged.complete());
  EXPECT_EQ(out.data(), "abcde");
}

TEST(MergedOutputTest, OtherAxesAreInterleaved) {
  Output output({2, 2}, {2, 1}, 1, {2, 5});
  v1::Tensor out;
  MergedOutput merged(output.layout, kFiveInThree, kNoLimit, &out);

  EXPECT_TRUE(AddOk(merged, Parts(2, 1, "eE")));
  EXPECT_TRUE(AddOk(merged, Parts(0, 2, "abABcdCD")));

  EXPECT_EQ(out.data(), "abcdeABCDE");
}

TEST(MergedOutputTest, OneForEachMicrobatchIsStacked) {
  Output output({}, {}, std::nullopt, {3});
  v1::Tensor out;
  MergedOutput merged(output.layout, kFiveInThree, kNoLimit, &out);

  EXPECT_TRUE(AddOk(merged, Parts(1, 2, "bc")));
  EXPECT_TRUE(AddOk(merged, Parts(0, 1, "a")));

  EXPECT_EQ(out.data(), "abc");
  EXPECT_EQ(out.shape_size(), 1);
  EXPECT_EQ(out.shape(0), 3);
}

TEST(MergedOutputTest, SizesThatDependOnTheDataAreJoinedAtTheEnd) {
  Output output({-1, 2}, {-1, 2}, 0, {});
  v1::Tensor out;
  MergedOutput merged(output.layout, kFiveInThree, kNoLimit, &out);
  const auto with_rows = [](v1::OutputData parts, std::vector<int64_t> rows) {
    for (const int64_t n : rows) {
      *parts.add_parts() = EncodeSpec(DType::kUint8, Shape{n, 2});
    }
    return parts;
  };

  EXPECT_TRUE(AddOk(merged, with_rows(Parts(2, 1, "eeff"), {2})));
  EXPECT_TRUE(AddOk(merged, with_rows(Parts(0, 2, "aabbcc"), {3, 0})));
  ASSERT_THAT(merged.Finish(), IsOk());

  EXPECT_EQ(out.data(), "aabbcceeff");
  EXPECT_EQ(out.shape(0), 5);
}

TEST(MergedOutputTest, DataDependentOutputsAreBounded) {
  Output output({-1}, {-1}, 0, {});
  v1::Tensor out;
  MergedOutput merged(output.layout, kFiveInThree, /*max_bytes=*/3, &out);
  auto parts = Parts(0, 1, "abcd");
  *parts.add_parts() = EncodeSpec(DType::kUint8, Shape{4});

  EXPECT_THAT(merged.Add(parts),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(MergedOutputTest, PartsThatBreakTheirDeclarationAreRefused) {
  Output output({-1, 2}, {-1, 2}, 0, {});
  v1::Tensor out;
  MergedOutput merged(output.layout, kFiveInThree, kNoLimit, &out);
  auto short_of_bytes = Parts(0, 1, "abc");
  *short_of_bytes.add_parts() = EncodeSpec(DType::kUint8, Shape{2, 2});
  auto other_axis = Parts(1, 1, "abc");
  *other_axis.add_parts() = EncodeSpec(DType::kUint8, Shape{1, 3});
  auto no_shape = Parts(2, 1, "ab");

  for (auto* parts : {&short_of_bytes, &other_axis, &no_shape}) {
    EXPECT_THAT(merged.Add(*parts), StatusIs(absl::StatusCode::kInternal));
  }
}

TEST(MergedOutputTest, RepetitionIsIgnored) {
  Output output({2}, {1}, 0, {5});
  v1::Tensor out;
  MergedOutput merged(output.layout, kFiveInThree, kNoLimit, &out);
  ASSERT_TRUE(AddOk(merged, Parts(0, 1, "ab")));
  auto again = Parts(0, 1, "xy");

  EXPECT_THAT(merged.Add(again), IsOkAndHolds(false));

  EXPECT_TRUE(AddOk(merged, Parts(1, 2, "cde")));
  EXPECT_EQ(out.data(), "abcde");
}

TEST(MergedOutputTest, WrongSizesAndMicrobatchesAreRefused) {
  Output output({2}, {1}, 0, {5});
  v1::Tensor out;
  MergedOutput merged(output.layout, kFiveInThree, kNoLimit, &out);
  auto too_short = Parts(0, 1, "a");
  auto beyond = Parts(2, 2, "eff");
  auto negative = Parts(-1, 1, "a");

  EXPECT_THAT(merged.Add(too_short),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("has 1 bytes; the contract says 2")));
  EXPECT_THAT(merged.Add(beyond), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(merged.Add(negative), StatusIs(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace pipestage
