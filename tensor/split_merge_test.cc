#include "tensor/split_merge.h"

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/microbatches.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Bytes 0, 1, 2, ...
HostTensor Counting(DType dtype, Shape shape) {
  std::string bytes(*NumBytes(dtype, shape), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  return {dtype, std::move(shape), Buffer::FromString(std::move(bytes))};
}

std::string Bytes(const HostTensor& tensor) {
  return std::string(reinterpret_cast<const char*>(tensor.data.data()),
                     tensor.data.size());
}

TEST(SplitMergeTest, MicrobatchesAlongAnyAxisJoinToTheBatch) {
  for (int value = v1::DType_MIN + 1; value <= v1::DType_MAX; ++value) {
    for (int axis = 0; axis < 3; ++axis) {
      const HostTensor batch = Counting(static_cast<DType>(value), {4, 5, 6});
      for (int count = 1; count <= 6; ++count) {
        PIPESTAGE_ASSERT_OK_AND_ASSIGN(
            const Microbatches split,
            Microbatches::Create(batch.shape[axis], count));
        std::vector<HostTensor> parts;
        for (MicrobatchIndex m(0); m.value() < split.count(); ++m) {
          PIPESTAGE_ASSERT_OK_AND_ASSIGN(
              parts.emplace_back(),
              SliceRows(batch, axis, split.first_row(m), split.rows(m)));
        }

        PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor joined,
                                       Concatenate(parts, axis));

        EXPECT_EQ(joined.dtype, batch.dtype);
        EXPECT_EQ(joined.shape, batch.shape);
        EXPECT_EQ(Bytes(joined), Bytes(batch));
      }
    }
  }
}

TEST(SplitMergeTest, SliceAlongTheFirstAxisSharesBytes) {
  const HostTensor batch = Counting(DType::kInt16, {4, 3});

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor part,
                                 SliceRows(batch, 0, 1, 2));

  EXPECT_EQ(part.shape, Shape({2, 3}));
  EXPECT_EQ(part.data.data(), batch.data.data() + 6);
  EXPECT_EQ(part.data.size(), 12);
}

TEST(SplitMergeTest, SliceAlongAnotherAxisTakesItsColumns) {
  const HostTensor batch = Counting(DType::kUint8, {2, 4});

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor part,
                                 SliceRows(batch, 1, 1, 2));

  EXPECT_EQ(part.shape, Shape({2, 2}));
  EXPECT_EQ(Bytes(part), std::string("\1\2\5\6"));
}

TEST(SplitMergeTest, RowsAreWrittenWhereTheyBelong) {
  HostTensor whole = Counting(DType::kUint8, {2, 4});

  ASSERT_THAT(
      WriteRows({DType::kUint8, {2, 1}, Buffer::FromString("ab")}, 1, 2, whole),
      IsOk());

  EXPECT_EQ(Bytes(whole), std::string("\0\1a\3\4\5b\7", 8));
}

TEST(SplitMergeTest, PartsWithoutRowsAddNothing) {
  const HostTensor batch = Counting(DType::kFloat32, {2, 3});
  for (int axis = 0; axis < 2; ++axis) {
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(
        const HostTensor none,
        SliceRows(batch, axis, batch.shape[axis], /*count=*/0));

    PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor joined,
                                   Concatenate({none, batch, none}, axis));

    EXPECT_EQ(joined.shape, batch.shape);
    EXPECT_EQ(Bytes(joined), Bytes(batch));
  }
}

TEST(SplitMergeTest, EmptyTensorsSplitAndJoin) {
  const HostTensor empty = {DType::kInt64, {4, 0, int64_t{1} << 60}, Buffer()};

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor part,
                                 SliceRows(empty, 0, 1, 2));
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor other,
                                 SliceRows(empty, 2, 1, 2));
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor joined,
                                 Concatenate({part, part}, 0));

  EXPECT_EQ(other.shape, Shape({4, 0, 2}));
  EXPECT_EQ(joined.shape, empty.shape);
}

TEST(SplitMergeTest, AxisOrRangeOutsideIsRefused) {
  HostTensor batch = Counting(DType::kInt8, {4, 3});
  const HostTensor scalar = Counting(DType::kInt8, {});

  for (const int axis : {-1, 2}) {
    EXPECT_THAT(SliceRows(batch, axis, 0, 1),
                StatusIs(kInvalid, HasSubstr("not one of [4,3]")));
  }
  EXPECT_THAT(SliceRows(scalar, 0, 0, 1), StatusIs(kInvalid));
  EXPECT_THAT(SliceRows(batch, 0, 3, 2),
              StatusIs(kInvalid, HasSubstr("2 rows from 3")));
  EXPECT_THAT(SliceRows(batch, 0, -1, 2), StatusIs(kInvalid));
  EXPECT_THAT(SliceRows(batch, 0, 1, -1), StatusIs(kInvalid));
  EXPECT_THAT(SliceRows(batch, 0, INT64_MAX, INT64_MAX), StatusIs(kInvalid));
  EXPECT_THAT(WriteRows(Counting(DType::kInt8, {2, 3}), 0, 3, batch),
              StatusIs(kInvalid, HasSubstr("2 rows from 3")));
}

TEST(SplitMergeTest, PartsThatDoNotFitAreRefused) {
  HostTensor whole = Counting(DType::kInt8, {4, 3});

  EXPECT_THAT(
      WriteRows(Counting(DType::kInt8, {1, 2}), 0, 0, whole),
      StatusIs(kInvalid, HasSubstr("int8 [1,2] is no part along axis 0 of "
                                   "int8 [4,3]")));
  EXPECT_THAT(WriteRows(Counting(DType::kUint8, {1, 3}), 0, 0, whole),
              StatusIs(kInvalid, HasSubstr("uint8")));
  EXPECT_THAT(Concatenate({whole, Counting(DType::kInt8, {4, 2})}, 0),
              StatusIs(kInvalid, HasSubstr("part 1 is int8 [4,2]")));
  EXPECT_THAT(Concatenate({whole, Counting(DType::kInt8, {4, 3, 1})}, 0),
              StatusIs(kInvalid, HasSubstr("part 1")));
  EXPECT_THAT(Concatenate({}, 0), StatusIs(kInvalid, HasSubstr("no parts")));
}

TEST(SplitMergeTest, BytesThatContradictTheShapeAreRefused) {
  const HostTensor broken = {DType::kInt8, {4, 3}, Buffer::FromString("short")};

  EXPECT_THAT(SliceRows(broken, 0, 0, 1),
              StatusIs(kInvalid, HasSubstr("has 5 bytes; 12 belong to it")));
}

}  // namespace
}  // namespace pipestage
