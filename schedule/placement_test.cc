#include "schedule/placement.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;

TEST(LoopPlacementTest, StagesGoRoundTheRanks) {
  EXPECT_THAT(
      LoopPlacement(/*num_ranks=*/3, /*stages_per_rank=*/2),
      ElementsAre(Rank(0), Rank(1), Rank(2), Rank(0), Rank(1), Rank(2)));
}

TEST(LoopPlacementTest, OneRankOwnsAll) {
  EXPECT_THAT(LoopPlacement(1, 3), ElementsAre(Rank(0), Rank(0), Rank(0)));
}

TEST(VPlacementTest, StagesGoDownTheRanksAndUpAgain) {
  EXPECT_THAT(
      VPlacement(/*num_ranks=*/3, /*stages_per_rank=*/2),
      ElementsAre(Rank(0), Rank(1), Rank(2), Rank(2), Rank(1), Rank(0)));
  EXPECT_THAT(VPlacement(2, 3), ElementsAre(Rank(0), Rank(1), Rank(1), Rank(0),
                                            Rank(0), Rank(1)));
  EXPECT_THAT(VPlacement(1, 2), ElementsAre(Rank(0), Rank(0)));
}

}  // namespace
}  // namespace pipestage
