#include "schedule/passes/add_unshard_reshard.h"

#include <string>

#include "gtest/gtest.h"

namespace pipestage {
namespace {

std::string Sharded(const std::string& csv, int max_unsharded) {
  return ToCsv(AddUnshardReshard(*ParseCsv(csv), max_unsharded));
}

TEST(AddUnshardReshardTest,
     StagesAreGatheredAheadAndGivenUpOnceNotNeededAgain) {
  EXPECT_EQ(Sharded("0F0,2F0,2B0,0B0\n", 3),
            "0UNSHARD,2UNSHARD,0F0,2F0,2B0,2RESHARD,0B0,0RESHARD\n");
}

TEST(AddUnshardReshardTest, TheStageNeededLatestGivesWay) {
  EXPECT_EQ(Sharded("0F0,1F0,2F0,0B0\n", 2),
            "0UNSHARD,1UNSHARD,0F0,"
            "0RESHARD,2UNSHARD,1F0,"
            "1RESHARD,0UNSHARD,2F0,"
            "2RESHARD,0B0,0RESHARD\n");
}

TEST(AddUnshardReshardTest, AnOverlappedPairIsGatheredTogether) {
  EXPECT_EQ(Sharded("0F0,(1F0;2B0)OVERLAP_F_B\n", 2),
            "0UNSHARD,1UNSHARD,2UNSHARD,0F0,"
            "0RESHARD,(1F0;2B0)OVERLAP_F_B,1RESHARD,2RESHARD\n");
}

TEST(AddUnshardReshardTest, AnEmptyRowStaysEmpty) {
  EXPECT_EQ(ToCsv(AddUnshardReshard(ActionRows(2))), "\n\n");
}

}  // namespace
}  // namespace pipestage
