#include "worker/call_inbox.h"

#include <thread>

#include "absl/synchronization/notification.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::FeedData Feed(int argument, int first, int count, std::string data) {
  v1::FeedData feed;
  feed.set_argument(argument);
  feed.set_first_microbatch(first);
  feed.set_num_microbatches(count);
  feed.set_data(std::move(data));
  return feed;
}

std::string Text(const absl::StatusOr<Buffer>& buffer) {
  if (!buffer.ok()) return buffer.status().ToString();
  return std::string(reinterpret_cast<const char*>(buffer->data()),
                     buffer->size());
}

// Five rows in microbatches of 2, 2 and 1, a byte each; and a replicated
// argument.
class CallInboxTest : public ::testing::Test {
 protected:
  void Expect(int uses = 1) {
    inbox_.Expect({{"x", uses, false, 2, 1},
                   {"scale", 1, true, 4, 4},
                   {"elsewhere", 0, false, 2, 1}},
                  *Microbatches::Create(5, 3));
  }
  absl::StatusOr<Buffer> Take(int argument, int m) {
    return inbox_.Take(argument, MicrobatchIndex(m));
  }

  std::vector<int64_t> told_;
  std::shared_ptr<FeedWindow> window_ = std::make_shared<FeedWindow>(
      4, [this](int64_t limit) { told_.push_back(limit); });
  CallInbox inbox_{CallId(7), window_};
};

TEST_F(CallInboxTest, OneFeedIsCutIntoItsMicrobatches) {
  inbox_.AddFeed(Feed(0, 0, 3, "aabbc"));
  Expect();

  EXPECT_EQ(Text(Take(0, 0)), "aa");
  EXPECT_EQ(Text(Take(0, 1)), "bb");
  EXPECT_EQ(Text(Take(0, 2)), "c");
}

TEST_F(CallInboxTest, FeedsMayComeInAnyOrderAndLate) {
  Expect();
  std::thread feeder([this] {
    inbox_.AddFeed(Feed(0, 2, 1, "c"));
    inbox_.AddFeed(Feed(1, 0, 0, "four"));
    inbox_.AddFeed(Feed(0, 0, 2, "aabb"));
  });

  EXPECT_EQ(Text(Take(0, 0)), "aa");
  EXPECT_EQ(Text(Take(0, 2)), "c");
  EXPECT_EQ(Text(Take(1, 0)), "four");
  feeder.join();
}

TEST_F(CallInboxTest, BytesAreThoseOfTheMessage) {
  v1::FeedData feed = Feed(0, 0, 2, std::string(1 << 20, 'x'));
  const void* bytes = feed.data().data();
  inbox_.AddFeed(std::move(feed));
  inbox_.Expect({{"x", 1, false, 1 << 19, 1 << 19}},
                *Microbatches::Create(2, 2));

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const Buffer first, Take(0, 0));

  EXPECT_EQ(first.data(), bytes);
}

TEST_F(CallInboxTest, MessageIsFreedWhenItsLastPartIsDone) {
  inbox_.AddFeed(Feed(0, 0, 2, "aabb"));
  Expect();
  Buffer first = *Take(0, 0);
  const std::weak_ptr<const void> owner = first.owner();

  first.Reset();
  EXPECT_FALSE(owner.expired());
  Buffer second = *Take(0, 1);
  second.Reset();

  EXPECT_TRUE(owner.expired());
}

TEST_F(CallInboxTest, ArgumentOfTwoStagesIsTakenTwice) {
  inbox_.AddFeed(Feed(0, 0, 3, "aabbc"));
  Expect(/*uses=*/2);

  EXPECT_EQ(Text(Take(0, 1)), "bb");
  EXPECT_EQ(Text(Take(0, 1)), "bb");
}

TEST_F(CallInboxTest, BytesCountAsTakenWhenTheyAreUsedFirst) {
  window_->OnReceived(5);
  inbox_.AddFeed(Feed(0, 0, 3, "aabbc"));
  Expect(/*uses=*/2);

  ASSERT_THAT(Take(0, 1), IsOk());
  ASSERT_THAT(Take(0, 1), IsOk());
  ASSERT_THAT(Take(0, 2), IsOk());

  EXPECT_THAT(told_, ElementsAre(6, 7));
}

TEST_F(CallInboxTest, BytesNobodyTakesCountAsTaken) {
  window_->OnReceived(5);
  inbox_.AddFeed(Feed(2, 0, 1, "abc"));
  inbox_.AddFeed(Feed(0, 0, 1, "aa"));
  Expect();

  ASSERT_THAT(Take(0, 0), IsOk());

  EXPECT_THAT(told_, ElementsAre(7, 9));
}

TEST_F(CallInboxTest, WhatIsDiscardedAndWhatComesAfterCountsAsTaken) {
  window_->OnReceived(5);
  inbox_.AddFeed(Feed(0, 0, 2, "aabb"));
  Expect();
  ASSERT_THAT(Take(0, 0), IsOk());

  inbox_.Discard();
  inbox_.AddFeed(Feed(0, 2, 1, "c"));

  EXPECT_THAT(told_, ElementsAre(6, 8, 9));
}

TEST_F(CallInboxTest, AbortedCallGivesBackWhatItDidNotTake) {
  window_->OnReceived(4);
  {
    CallInbox aborted(CallId(8), window_);
    aborted.AddFeed(Feed(0, 0, 2, "aabb"));
    aborted.Abort(absl::UnavailableError("generation over"));
  }

  EXPECT_THAT(told_, ElementsAre(8));
}

TEST_F(CallInboxTest, CallThatNeedsWhatTheLimitKeepsBackIsGivenMore) {
  absl::Notification asked;
  auto window = std::make_shared<FeedWindow>(4, [&](int64_t) {
    if (!asked.HasBeenNotified()) asked.Notify();
  });
  CallInbox inbox(CallId(8), window);
  window->OnReceived(4);
  inbox.AddFeed(Feed(1, 0, 0, "four"));
  inbox.Expect({{"x", 1, false, 2, 1}, {"scale", 1, true, 4, 4}},
               *Microbatches::Create(5, 3));
  std::thread feeder([&] {
    asked.WaitForNotification();
    window->OnReceived(2);
    inbox.AddFeed(Feed(0, 0, 1, "aa"));
  });

  EXPECT_EQ(Text(inbox.Take(0, MicrobatchIndex(0))), "aa");
  feeder.join();
}

TEST_F(CallInboxTest, WrongSizeNamesArgumentAndBothSizes) {
  inbox_.AddFeed(Feed(0, 1, 2, "bbcc"));
  Expect();

  EXPECT_THAT(Take(0, 1),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("microbatches [1,3) of argument 'x'"),
                             HasSubstr("4 bytes"), HasSubstr("3 bytes"))));
}

TEST_F(CallInboxTest, FeedsThatMakeNoSenseAreErrors) {
  const auto error_of = [](v1::FeedData feed) {
    CallInbox inbox(CallId(1), FeedWindow::Unbounded());
    inbox.Expect({{"x", 1, false, 2, 1}, {"scale", 1, true, 4, 4}},
                 *Microbatches::Create(5, 3));
    inbox.AddFeed(Feed(0, 0, 1, "aa"));
    inbox.AddFeed(std::move(feed));
    return std::string(inbox.Take(0, MicrobatchIndex(2)).status().message());
  };

  EXPECT_THAT(error_of(Feed(2, 0, 1, "")), HasSubstr("argument 2"));
  EXPECT_THAT(error_of(Feed(-1, 0, 1, "")), HasSubstr("argument -1"));
  EXPECT_THAT(error_of(Feed(0, 0, 1, "aa")), HasSubstr("fed twice"));
  EXPECT_THAT(error_of(Feed(0, 2, 2, "cd")), HasSubstr("[2,4)"));
  EXPECT_THAT(error_of(Feed(0, -1, 1, "a")), HasSubstr("[-1,0)"));
  EXPECT_THAT(error_of(Feed(0, 2147483647, 2147483647, "a")),
              HasSubstr("were fed"));
  EXPECT_THAT(error_of(Feed(1, 0, 1, "four")), HasSubstr("replicates"));
  EXPECT_THAT(error_of(Feed(1, 0, 0, "five!")), HasSubstr("5 bytes"));
}

TEST_F(CallInboxTest, ArgumentNobodyTakesIsPassedOver) {
  inbox_.AddFeed(Feed(2, 0, 1, "any size"));
  inbox_.AddFeed(Feed(0, 0, 1, "aa"));
  Expect();

  EXPECT_EQ(Text(Take(0, 0)), "aa");
}

TEST_F(CallInboxTest, CancelEndsTheWait) {
  Expect();
  std::thread canceller([this] { inbox_.Cancel("the client left"); });

  EXPECT_THAT(Take(0, 0), StatusIs(absl::StatusCode::kCancelled,
                                   HasSubstr("call 7 was cancelled: the "
                                             "client left")));
  canceller.join();
  EXPECT_EQ(inbox_.state(), CallInbox::State::kCancelled);
}

TEST_F(CallInboxTest, AbortOverrulesCancel) {
  Expect();
  inbox_.Cancel("the client left");
  inbox_.Abort(absl::UnavailableError("generation over"));
  inbox_.Cancel("again");

  EXPECT_EQ(inbox_.state(), CallInbox::State::kAborted);
  EXPECT_THAT(inbox_.reason(), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace pipestage
