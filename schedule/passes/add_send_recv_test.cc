#include "schedule/passes/add_send_recv.h"

#include <string>

#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "schedule/placement.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

std::string Lower(const std::string& csv, int ranks, int stages_per_rank,
                  int microbatches) {
  absl::StatusOr<ActionRows> rows = AddSendRecv(
      *ParseCsv(csv), LoopPlacement(ranks, stages_per_rank), microbatches);
  return rows.ok() ? ToCsv(*rows) : rows.status().ToString();
}

TEST(AddSendRecvTest, ASendFollowsItsForward) {
  EXPECT_EQ(Lower("0F0,0F1\n"
                  "1F0,1F1\n",
                  2, 1, 2),
            "0F0,0SEND_F0,0F1,0SEND_F1\n"
            "1RECV_F0,1F0,1RECV_F1,1F1\n");
}

TEST(AddSendRecvTest, StagesOfOneRankNeedNoMessages) {
  EXPECT_EQ(Lower("0F0,1F0,0F1,1F1\n", 1, 2, 2), "0F0,1F0,0F1,1F1\n");
}

TEST(AddSendRecvTest, LoopedStagesSendBackToTheFirstRank) {
  EXPECT_EQ(Lower("0F0,0F1,2F0,2F1\n"
                  "1F0,1F1,3F0,3F1\n",
                  2, 2, 2),
            "0F0,0SEND_F0,2RECV_F0,0F1,0SEND_F1,2RECV_F1,2F0,2SEND_F0,2F1,"
            "2SEND_F1\n"
            "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,"
            "3RECV_F1,3F1\n");
}

TEST(AddSendRecvTest, GradientsTravelBackAndWeightGradientsDoNot) {
  EXPECT_EQ(Lower("0F0,0B0\n"
                  "1F0,1I0,1W0\n",
                  2, 1, 1),
            "0F0,0SEND_F0,0RECV_B0,0B0\n"
            "1RECV_F0,1F0,1I0,1SEND_B0,1W0\n");
}

TEST(AddSendRecvTest, ActionsWithoutMicrobatchStayWhereTheyAre) {
  EXPECT_EQ(Lower("0UNSHARD,0F0,0RESHARD\n"
                  "1UNSHARD,1F0\n",
                  2, 1, 1),
            "0UNSHARD,0F0,0SEND_F0,0RESHARD\n"
            "1UNSHARD,1RECV_F0,1F0\n");
}

TEST(AddSendRecvTest, AnOrderThatWaitsForItselfIsRefused) {
  EXPECT_THAT(Lower("2F0,0F0\n"
                    "1F0,3F0\n",
                    2, 2, 1),
              HasSubstr("the order waits for itself: rank 0 waits before 2F0, "
                        "rank 1 waits before 1F0"));
}

TEST(AddSendRecvTest, ActionsThatDoNotBelongAreRefused) {
  for (const char* csv : {"1F0\n0F0\n", "0F0,0F2\n1F0\n", "0F0,0SEND_F0\n1F0\n",
                          "0F0\n1F0,3F0\n"}) {
    EXPECT_THAT(
        AddSendRecv(*ParseCsv(csv), LoopPlacement(2, 1), 2),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot take")))
        << csv;
  }
}

}  // namespace
}  // namespace pipestage
