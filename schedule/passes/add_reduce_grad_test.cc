#include "schedule/passes/add_reduce_grad.h"

#include "gtest/gtest.h"

namespace pipestage {
namespace {

TEST(AddReduceGradTest, ItFollowsTheLastWeightGradientOfItsStage) {
  EXPECT_EQ(ToCsv(AddReduceGrad(*ParseCsv("0F0,0F1,0B0,0B1\n"
                                          "1F0,1I0,1F1,1I1,1W0,1W1\n"),
                                2)),
            "0F0,0F1,0B0,0B1,0REDUCE_GRAD\n"
            "1F0,1I0,1F1,1I1,1W0,1W1,1REDUCE_GRAD\n");
}

TEST(AddReduceGradTest, ABackwardWithinAnOverlapCounts) {
  EXPECT_EQ(
      ToCsv(AddReduceGrad(*ParseCsv("1B0,(0F1;1B1)OVERLAP_F_B,0B0\n"), 2)),
      "1B0,(0F1;1B1)OVERLAP_F_B,1REDUCE_GRAD,0B0\n");
}

}  // namespace
}  // namespace pipestage
