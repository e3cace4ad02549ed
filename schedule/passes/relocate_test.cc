#include "schedule/passes/relocate.h"

#include "gtest/gtest.h"
#include "schedule/placement.h"

namespace pipestage {
namespace {

TEST(RelocateTest, ARanksSecondStageStaysItsSecond) {
  EXPECT_EQ(ToCsv(Relocate(*ParseCsv("0F0,3F0\n"
                                     "1F0,2F0\n"),
                           VPlacement(2, 2), LoopPlacement(2, 2))),
            "0F0,2F0\n"
            "1F0,3F0\n");
}

TEST(RelocateTest, BothPartsOfAnOverlapMove) {
  EXPECT_EQ(ToCsv(Relocate(*ParseCsv("(0F1;3B0)OVERLAP_F_B\n"
                                     "(1F1;2B0)OVERLAP_F_B\n"),
                           VPlacement(2, 2), LoopPlacement(2, 2))),
            "(0F1;2B0)OVERLAP_F_B\n"
            "(1F1;3B0)OVERLAP_F_B\n");
}

}  // namespace
}  // namespace pipestage
