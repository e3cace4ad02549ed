#include "tensor/microbatches.h"

#include <algorithm>
#include <vector>

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Deals rows one by one: what the closed form must equal.
std::vector<int64_t> DealRows(int64_t rows, int64_t count) {
  std::vector<int64_t> dealt(std::min(rows, count), 0);
  for (int64_t row = 0; row < rows; ++row) ++dealt[row % dealt.size()];
  return dealt;
}

TEST(MicrobatchesTest, SizesAreThoseOfRowsDealtOneByOne) {
  for (int64_t rows = 1; rows <= 9; ++rows) {
    for (int64_t count = 1; count <= 8; ++count) {
      SCOPED_TRACE(testing::Message() << "B=" << rows << " M=" << count);
      const std::vector<int64_t> dealt = DealRows(rows, count);

      PIPESTAGE_ASSERT_OK_AND_ASSIGN(const Microbatches parts,
                                     Microbatches::Create(rows, count));

      ASSERT_EQ(parts.count(), static_cast<int32_t>(dealt.size()));
      int64_t first = 0;
      for (MicrobatchIndex m(0); m.value() < parts.count(); ++m) {
        EXPECT_EQ(parts.rows(m), dealt[m.value()]);
        EXPECT_EQ(parts.first_row(m), first);
        first += parts.rows(m);
      }
      EXPECT_EQ(first, rows);
      EXPECT_EQ(parts.total_rows(), rows);
      EXPECT_EQ(parts.max_rows(), dealt[0]);
    }
  }
}

TEST(MicrobatchesTest, FewerRowsThanMicrobatchesLowersTheCount) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const Microbatches parts,
                                 Microbatches::Create(3, 8));

  EXPECT_EQ(parts.count(), 3);
  EXPECT_EQ(parts.rows(MicrobatchIndex(2)), 1);
}

TEST(MicrobatchesTest, NoRowsOrNoMicrobatchesAreRefused) {
  EXPECT_THAT(Microbatches::Create(0, 4), StatusIs(kInvalid, HasSubstr("0")));
  EXPECT_THAT(Microbatches::Create(-5, 4), StatusIs(kInvalid, HasSubstr("-5")));
  EXPECT_THAT(Microbatches::Create(4, 0), StatusIs(kInvalid, HasSubstr("0")));
  EXPECT_THAT(Microbatches::Create(4, -1), StatusIs(kInvalid, HasSubstr("-1")));
}

TEST(MicrobatchesTest, HugeNumbersDoNotOverflow) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const Microbatches parts,
                                 Microbatches::Create(INT64_MAX, 1000));
  const MicrobatchIndex last(999);

  EXPECT_EQ(parts.first_row(last) + parts.rows(last), INT64_MAX);
  EXPECT_THAT(Microbatches::Create(INT64_MAX, INT64_MAX),
              StatusIs(kInvalid, HasSubstr("too many")));
}

}  // namespace
}  // namespace pipestage
