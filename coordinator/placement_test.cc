#include "coordinator/placement.h"

#include "base/error_info.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PlacementTest, StagesGoRoundTheRanks) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const Placement placement,
                                 PlaceStages(6, 3, 0));

  EXPECT_EQ(placement.num_ranks, 3);
  EXPECT_EQ(placement.stages_per_rank, 2);
  EXPECT_THAT(placement.stage_ranks, ElementsAre(Rank(0), Rank(1), Rank(2),
                                                 Rank(0), Rank(1), Rank(2)));
  EXPECT_THAT(placement.StagesOf(Rank(1)),
              ElementsAre(StageIndex(1), StageIndex(4)));
}

TEST(PlacementTest, MostWorkersThatDivideTheStagesTakePart) {
  EXPECT_EQ(PlaceStages(6, 4, 0)->num_ranks, 3);
  EXPECT_EQ(PlaceStages(5, 4, 0)->num_ranks, 1);
  EXPECT_EQ(PlaceStages(2, 4, 0)->num_ranks, 2);
}

TEST(PlacementTest, RequestedNumberIsKept) {
  EXPECT_EQ(PlaceStages(6, 3, 2)->stages_per_rank, 3);
  EXPECT_THAT(PlaceStages(6, 4, 4), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("1, 2, 3, 6")));
}

TEST(PlacementTest, MoreWorkersThanConfiguredAreMissing) {
  const auto placement = PlaceStages(6, 2, 3);

  EXPECT_THAT(placement, StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("lacks 1 of 3 workers")));
  EXPECT_EQ(GetReason(placement.status()), reason::kWorkersMissing);
}

}  // namespace
}  // namespace pipestage
