#include "worker/feed_window.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FeedWindowTest : public ::testing::Test {
 protected:
  std::vector<int64_t> told_;
  FeedWindow window_{100, [this](int64_t limit) { told_.push_back(limit); }};
};

TEST_F(FeedWindowTest, LimitIsWhatWasTakenAndTheWindow) {
  window_.OnReceived(100);

  window_.OnTaken(60);

  EXPECT_THAT(told_, ElementsAre(160));
}

TEST_F(FeedWindowTest, SmallRisesAreToldTogether) {
  window_.OnReceived(100);

  for (int i = 0; i < 100; ++i) window_.OnTaken(1);

  EXPECT_THAT(told_, ElementsAre(125, 150, 175, 200));
}

TEST_F(FeedWindowTest, WaitingForWhatIsOnItsWayTellsNothing) {
  window_.OnReceived(99);

  window_.OnStarving();

  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(FeedWindowTest, WaitingForWhatTheLimitKeepsBackRaisesIt) {
  window_.OnReceived(130);  // the last message went beyond

  window_.OnStarving();
  window_.OnStarving();  // the coordinator has yet to use it

  EXPECT_THAT(told_, ElementsAre(155));
}

TEST_F(FeedWindowTest, LimitNeverFalls) {
  window_.OnReceived(400);
  window_.OnStarving();

  window_.OnTaken(100);  // 200 is below what was told
  window_.OnTaken(300);

  EXPECT_THAT(told_, ElementsAre(425, 500));
}

TEST_F(FeedWindowTest, MessageLargerThanTheWindowFollowsTheOneBefore) {
  window_.OnReceived(1000);

  window_.OnTaken(1000);

  EXPECT_THAT(told_, ElementsAre(1100));
}

TEST_F(FeedWindowTest, NothingIsToldAfterTheAttachment) {
  window_.OnReceived(100);

  window_.Close();
  window_.OnTaken(100);
  window_.OnStarving();

  EXPECT_THAT(told_, IsEmpty());
}

}  // namespace
}  // namespace pipestage
