#include "coordinator/loss_collector.h"

#include <cmath>
#include <cstring>

#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

// A report of microbatches with one term each.
v1::LossReport ReportOf(int first, std::vector<double> sums,
                        std::vector<int64_t> weights) {
  v1::LossReport report;
  report.set_first_microbatch(first);
  for (const double sum : sums) {
    report.add_partials(sum);
    report.add_partial_counts(1);
    report.add_nonfinite(std::isfinite(sum) ? 0 : 1);
  }
  for (const int64_t weight : weights) report.add_weights(weight);
  return report;
}

const Microbatches kFiveInThree = *Microbatches::Create(5, 3);  // 2, 2, 1

TEST(LossCollectorTest, TotalIsDividedOnceWhateverTheOrder) {
  v1::EvalResponse reply;
  LossCollector losses(kFiveInThree, false, &reply);

  ASSERT_THAT(losses.Add(ReportOf(2, {5}, {1})), IsOk());
  ASSERT_THAT(losses.Add(ReportOf(0, {3, 7}, {2, 2})), IsOk());
  ASSERT_TRUE(losses.complete());
  losses.Finish();

  EXPECT_EQ(reply.loss().sum(), 15);
  EXPECT_EQ(reply.loss().weight(), 5);
  EXPECT_EQ(reply.loss().mean(), 3);
  EXPECT_EQ(reply.microbatches(1).loss().mean(), 3.5);
  EXPECT_EQ(reply.microbatches(2).first_row(), 4);
}

TEST(LossCollectorTest, SumIsExactWhereAdditionIsNot) {
  v1::EvalResponse reply;
  LossCollector losses(kFiveInThree, false, &reply);

  ASSERT_THAT(losses.Add(ReportOf(0, {1e100, 1, -1e100}, {1, 1, 1})), IsOk());
  losses.Finish();

  EXPECT_EQ(reply.loss().sum(), 1);
}

TEST(LossCollectorTest, NothingValidHasNoMean) {
  v1::EvalResponse reply;
  LossCollector losses(kFiveInThree, false, &reply);

  ASSERT_THAT(losses.Add(ReportOf(0, {0, 0, 0}, {0, 0, 0})), IsOk());
  losses.Finish();

  EXPECT_FALSE(reply.loss().has_mean());
  EXPECT_EQ(reply.loss().weight(), 0);
}

TEST(LossCollectorTest, NanIsReportedWithItsMicrobatch) {
  v1::EvalResponse reply;
  LossCollector losses(kFiveInThree, false, &reply);

  ASSERT_THAT(losses.Add(ReportOf(0, {1, NAN, 1}, {2, 2, 1})), IsOk());
  losses.Finish();

  EXPECT_TRUE(std::isnan(reply.loss().sum()));
  EXPECT_EQ(reply.loss().nonfinite(), 1);
  EXPECT_EQ(reply.microbatches(0).loss().nonfinite(), 0);
  EXPECT_EQ(reply.microbatches(1).loss().nonfinite(), 1);
}

TEST(LossCollectorTest, RowLossesArePlacedByTheirFirstRow) {
  v1::EvalResponse reply;
  LossCollector losses(kFiveInThree, true, &reply);
  auto late = ReportOf(1, {7, 5}, {2, 1});
  for (const double row : {3.0, 4.0, 5.0}) late.add_row_sums(row);
  for (int i = 0; i < 3; ++i) late.add_row_weights(1);
  auto early = ReportOf(0, {3}, {2});
  for (const double row : {1.0, 2.0}) early.add_row_sums(row);
  for (int i = 0; i < 2; ++i) early.add_row_weights(1);

  ASSERT_THAT(losses.Add(late), IsOk());
  ASSERT_THAT(losses.Add(early), IsOk());

  double rows[5];
  ASSERT_EQ(reply.row_losses().data().size(), sizeof(rows));
  std::memcpy(rows, reply.row_losses().data().data(), sizeof(rows));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(rows[i], i + 1);
}

TEST(LossCollectorTest, RepeatedMicrobatchesAreNotCountedTwice) {
  v1::EvalResponse reply;
  LossCollector losses(kFiveInThree, false, &reply);
  ASSERT_THAT(losses.Add(ReportOf(0, {3}, {2})), IsOk());

  const auto again = losses.Add(ReportOf(0, {3, 7}, {2, 2}));
  const auto old = losses.Add(ReportOf(1, {9}, {9}));

  ASSERT_THAT(again, IsOk());
  ASSERT_EQ(again->size(), 1);
  EXPECT_EQ((*again)[0].microbatch(), 1);
  ASSERT_THAT(old, IsOk());
  EXPECT_TRUE(old->empty());
  ASSERT_THAT(losses.Add(ReportOf(2, {5}, {1})), IsOk());
  losses.Finish();
  EXPECT_EQ(reply.loss().sum(), 15);
}

TEST(LossCollectorTest, ListsThatDisagreeAreRefused) {
  v1::EvalResponse reply;
  LossCollector losses(kFiveInThree, false, &reply);
  auto short_of_partials = ReportOf(0, {1, 2}, {1, 1});
  short_of_partials.mutable_partials()->RemoveLast();
  auto negative_count = ReportOf(0, {1}, {1});
  negative_count.set_partial_counts(0, -1);

  EXPECT_THAT(losses.Add(short_of_partials),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(losses.Add(negative_count),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(losses.Add(ReportOf(2, {1, 2}, {1, 1})),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(losses.Add(ReportOf(0, {}, {})),
              StatusIs(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace pipestage
