#include <set>
#include <string>

#include "gtest/gtest.h"
#include "schedule/action.h"
#include "schedule/generators/dual_pipe_v.h"
#include "schedule/generators/gpipe.h"
#include "schedule/generators/interleaved_1f1b.h"
#include "schedule/generators/interleaved_zero_bubble.h"
#include "schedule/generators/looped_bfs.h"
#include "schedule/generators/one_f_one_b.h"
#include "schedule/generators/zbv_zero_bubble.h"

namespace pipestage {
namespace {

TEST(GPipeTest, AllForwardsThenAllBackwards) {
  EXPECT_EQ(ToCsv(GenerateGPipe({2, 1, 3})),
            "0F0,0F1,0F2,0B0,0B1,0B2\n"
            "1F0,1F1,1F2,1B0,1B1,1B2\n");
}

TEST(GPipeTest, SeveralStagesGoOneAfterTheOther) {
  EXPECT_EQ(ToCsv(GenerateGPipe({2, 2, 2})),
            "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n"
            "1F0,1F1,3F0,3F1,3B0,3B1,1B0,1B1\n");
}

TEST(OneFOneBTest, ForwardsOfTheLastRankCountFromZero) {
  EXPECT_EQ(ToCsv(GenerateOneFOneB({3, 1, 4})),
            "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n"
            "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3\n"
            "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3\n");
}

TEST(OneFOneBTest, FewerMicrobatchesThanRanksAreAllWarmUp) {
  EXPECT_EQ(ToCsv(GenerateOneFOneB({3, 1, 2})),
            "0F0,0F1,0B0,0B1\n"
            "1F0,1F1,1B0,1B1\n"
            "2F0,2B0,2F1,2B1\n");
}

TEST(OneFOneBTest, SeveralStagesARankAreInterleaved) {
  EXPECT_EQ(GenerateOneFOneB({2, 2, 5}), GenerateInterleaved1F1B({2, 2, 5}));
}

TEST(LoopedBfsTest, BackwardsDescendThroughStagesAndMicrobatches) {
  EXPECT_EQ(ToCsv(GenerateLoopedBfs({2, 2, 2})),
            "0F0,0F1,2F0,2F1,2B1,2B0,0B1,0B0\n"
            "1F0,1F1,3F0,3F1,3B1,3B0,1B1,1B0\n");
}

TEST(Interleaved1F1BTest, RoundsOfAsManyMicrobatchesAsRanks) {
  EXPECT_EQ(
      ToCsv(GenerateInterleaved1F1B({2, 2, 4})),
      "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3\n"
      "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3\n");
}

TEST(Interleaved1F1BTest, ARoundMayBeLargerThanTheNumberOfRanks) {
  EXPECT_EQ(ToCsv(GenerateInterleaved1F1B({2, 2, 3})),
            "0F0,0F1,0F2,2F0,2F1,2F2,2B0,2B1,2B2,0B0,0B1,0B2\n"
            "1F0,1F1,1F2,3F0,3B0,3F1,3B1,3F2,3B2,1B0,1B1,1B2\n");
}

TEST(Interleaved1F1BTest, RoundsThatDoNotDivideDifferByOneLargerFirst) {
  // Two rounds of 3 and 2: PyTorch refuses this M.
  EXPECT_EQ(ToCsv(GenerateInterleaved1F1B({2, 2, 5})).substr(0, 40),
            "0F0,0F1,0F2,2F0,2F1,2F2,2B0,0F3,2B1,0F4,");
}

using Generator = ActionRows (*)(const ScheduleShape&);

std::string RowText(const ActionRows& rows, int rank) {
  std::string text;
  for (const Action& action : rows[rank]) {
    text += (text.empty() ? "" : ",") + ToString(action);
  }
  return text;
}

TEST(InterleavedZeroBubbleTest, WeightGradientsLagByTheRank) {
  const ActionRows rows = GenerateInterleavedZeroBubble({2, 1, 3});

  EXPECT_EQ(RowText(rows, 0), "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2");
  EXPECT_EQ(RowText(rows, 1), "1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2");
}

TEST(ZbvZeroBubbleTest, TheRankAtTheTurnGoesDownAndUpInTurn) {
  EXPECT_EQ(RowText(GenerateZbvZeroBubble({2, 2, 1}), 1),
            "1F0,2F0,2I0,2W0,1I0,1W0");
}

TEST(DualPipeVTest, ForwardsOfOneLegOverlapBackwardsOfTheOther) {
  EXPECT_EQ(RowText(GenerateDualPipeV({1, 2, 2}), 0),
            "0F0,1F0,0F1,1B0,(1F1;0B0)OVERLAP_F_B,1B1,0I1,0W1");
}

// Two full backwards count as one of each half.
TEST(GeneratorsTest, VSchedulesGoForwardAndBackwardOnceForAnyM) {
  for (Generator generate : {GenerateZbvZeroBubble, GenerateDualPipeV}) {
    for (int p = 1; p <= 5; ++p) {
      for (int m = 1; m <= 14; ++m) {
        std::multiset<std::string> halves;
        for (const auto& row : generate({p, 2, m})) {
          for (const Action& action : row) {
            ForEachPart(action, [&](Action part) {
              if (part.kind != ActionKind::kBackward) {
                halves.insert(ToString(part));
                return;
              }
              part.kind = ActionKind::kBackwardInput;
              halves.insert(ToString(part));
              part.kind = ActionKind::kBackwardWeight;
              halves.insert(ToString(part));
            });
          }
        }
        EXPECT_EQ(halves.size(), 3u * 2 * p * m) << p << " " << m;
        EXPECT_EQ(std::set<std::string>(halves.begin(), halves.end()).size(),
                  halves.size());
      }
    }
  }
}

TEST(GeneratorsTest, EveryStageAndMicrobatchGoesForwardAndBackwardOnce) {
  for (Generator generate : {GenerateGPipe, GenerateOneFOneB,
                             GenerateInterleaved1F1B, GenerateLoopedBfs}) {
    for (int p = 1; p <= 4; ++p) {
      for (int v = 1; v <= 3; ++v) {
        for (int m = 1; m <= 9; ++m) {
          std::set<std::string> seen;
          size_t count = 0;
          for (const auto& row : generate({p, v, m})) {
            for (const Action& action : row) seen.insert(ToString(action));
            count += row.size();
          }
          EXPECT_EQ(count, 2u * p * v * m);
          EXPECT_EQ(seen.size(), count);
        }
      }
    }
  }
}

}  // namespace
}  // namespace pipestage
