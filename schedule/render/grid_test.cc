#include "schedule/render/grid.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "schedule/compiler.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Draw(const std::string& schedule, int p, int v, int m,
                 int max_columns = kGridColumns) {
  auto plan = CompilePlan({PlanMode::kEval, schedule, p, v, m});
  if (!plan.ok()) return plan.status().ToString();
  auto grid = DrawPlan(**plan, max_columns);
  return grid.ok() ? *grid : grid.status().ToString();
}

size_t LongestLine(const std::string& text) {
  size_t longest = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    longest = std::max(longest, line.size());
  }
  return longest;
}

TEST(DrawPlanTest, ALineForEachRankAndAColumnForEachStep) {
  EXPECT_EQ(Draw("GPipe", 2, 1, 3),
            "rank 0   0F0 0F1 0F2   .\n"
            "rank 1     . 1F0 1F1 1F2\n");
}

TEST(DrawPlanTest, APlanTooWideHasALineForEachStage) {
  EXPECT_EQ(Draw("GPipe", 2, 2, 4, 40),
            "rank 0   stage 0   0123.....\n"
            "rank 0   stage 2   ....0123.\n"
            "rank 1   stage 1   .0123....\n"
            "rank 1   stage 3   .....0123\n");
}

TEST(DrawPlanTest, WhatDoesNotFitIsLeftOutAndSaidSo) {
  const std::string grid = Draw("1F1B", 2, 1, 500);

  EXPECT_LE(LongestLine(grid), static_cast<size_t>(kGridColumns));
  EXPECT_THAT(grid, HasSubstr("of 501 steps)"));
}

TimedAction Timed(int stage, int microbatch, double start_s, double end_s) {
  return {
      {StageIndex(stage), ActionKind::kForward, MicrobatchIndex(microbatch)},
      start_s,
      end_s};
}

TEST(DrawTimelineTest, AColumnShowsWhatTookMostOfIt) {
  const std::vector<RankTimeline> ranks = {
      {0, {Timed(0, 0, 0, 2), Timed(0, 1, 2, 4)}},
      {1, {Timed(1, 0, 2, 4), Timed(1, 1, 4, 8)}}};

  // 27 columns: 8 of them for cells of one second.
  EXPECT_THAT(DrawTimeline(ranks, 27),
              StartsWith("rank 0   stage 0   0011....\n"
                         "rank 1   stage 1   ..001111\n"
                         "(a column is 1e+03 ms"));
}

TEST(DrawTimelineTest, ALongCallKeepsItsWidth) {
  RankTimeline rank;
  for (int m = 0; m < 5000; ++m) rank.actions.push_back(Timed(0, m, m, m + 1));

  EXPECT_LE(LongestLine(DrawTimeline({rank})),
            static_cast<size_t>(kGridColumns));
}

TEST(DrawTimelineTest, NothingMeasuredIsSaidSo) {
  const double nan = std::numeric_limits<double>::quiet_NaN();

  EXPECT_EQ(DrawTimeline({}), "(nothing was measured)\n");
  EXPECT_EQ(
      DrawTimeline(
          {{0, {Timed(0, 0, nan, 1), Timed(0, 0, 1, 1), Timed(0, 0, 3, 2)}}}),
      "(nothing was measured)\n");
}

}  // namespace
}  // namespace pipestage
