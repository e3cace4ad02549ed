#include "schedule/passes/merge_backward.h"

#include "gtest/gtest.h"

namespace pipestage {
namespace {

TEST(MergeBackwardTest, NeighboursOfOneStageAndMicrobatchBecomeOne) {
  EXPECT_EQ(ToCsv(MergeBackward(*ParseCsv("0F0,0I0,0W0,0F1,0I1,0W1\n"))),
            "0F0,0B0,0F1,0B1\n");
}

TEST(MergeBackwardTest, OthersStayAsTheyAre) {
  const char* csv = "0I0,1W0,0I1,0F2,0W1,0W0,0I2,0W1\n";

  EXPECT_EQ(ToCsv(MergeBackward(*ParseCsv(csv))), csv);
}

}  // namespace
}  // namespace pipestage
