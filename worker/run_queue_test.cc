#include "worker/run_queue.h"

#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

v1::FormCommunicator FormOf(int64_t generation) {
  v1::FormCommunicator form;
  form.set_generation(generation);
  return form;
}

v1::Run RunOf(int64_t call, int64_t generation) {
  v1::Run run;
  run.set_call_id(call);
  run.set_generation(generation);
  return run;
}

v1::FeedData FeedOf(int64_t call) {
  v1::FeedData feed;
  feed.set_call_id(call);
  return feed;
}

TEST(RunQueueTest, WorkComesInTheOrderInWhichItWasSaid) {
  RunQueue queue;
  queue.PushForm(FormOf(1));
  EXPECT_TRUE(queue.PushRun(RunOf(5, 1)));
  EXPECT_TRUE(queue.PushRun(RunOf(4, 1)));

  EXPECT_FALSE(queue.TryPopRun().has_value());  // the form comes before
  EXPECT_TRUE(queue.Pop()->form.has_value());
  EXPECT_EQ(queue.Pop()->run.call_id(), 5);
  EXPECT_EQ(queue.TryPopRun()->run.call_id(), 4);
  EXPECT_FALSE(queue.TryPopRun().has_value());
}

TEST(RunQueueTest, RunsOfOtherGenerationsAreDropped) {
  RunQueue queue;
  EXPECT_FALSE(queue.PushRun(RunOf(1, 1)));
  queue.PushForm(FormOf(2));

  EXPECT_FALSE(queue.PushRun(RunOf(1, 1)));
  EXPECT_FALSE(queue.PushRun(RunOf(1, 3)));
  EXPECT_TRUE(queue.PushRun(RunOf(1, 2)));
}

TEST(RunQueueTest, EndOfGenerationDropsWhatWaitsAndAbortsWhatRuns) {
  RunQueue queue;
  queue.PushForm(FormOf(1));
  queue.PushRun(RunOf(1, 1));
  queue.PushRun(RunOf(2, 1));
  queue.Pop();
  const auto running = queue.Pop()->inbox;

  EXPECT_TRUE(queue.EndGenerations(Generation(1), absl::AbortedError("over")));

  EXPECT_EQ(running->state(), CallInbox::State::kAborted);
  EXPECT_FALSE(queue.TryPopRun().has_value());
  EXPECT_FALSE(queue.PushRun(RunOf(3, 1)));
  EXPECT_FALSE(queue.EndGenerations(Generation(1), absl::AbortedError("")));
}

TEST(RunQueueTest, OldEndDoesNotTouchTheNextGeneration) {
  RunQueue queue;
  queue.PushForm(FormOf(2));

  EXPECT_FALSE(queue.EndGenerations(Generation(1), absl::AbortedError("")));

  EXPECT_TRUE(queue.PushRun(RunOf(1, 2)));
}

TEST(RunQueueTest, FeedsOfUnknownAndEndedCallsAreDroppedAndCounted) {
  RunQueue queue;
  queue.PushForm(FormOf(1));
  queue.PushRun(RunOf(1, 1));

  queue.AddFeed(FeedOf(1));
  EXPECT_EQ(queue.dropped_feeds(), 0);
  queue.AddFeed(FeedOf(2));
  queue.Done(CallId(1));
  queue.AddFeed(FeedOf(1));

  EXPECT_EQ(queue.dropped_feeds(), 2);
}

TEST(RunQueueTest, StopEndsPop) {
  RunQueue queue;
  queue.PushForm(FormOf(1));

  queue.Stop();

  EXPECT_FALSE(queue.Pop().has_value());
  EXPECT_TRUE(queue.WaitUntilIdle(absl::ZeroDuration()));
}

TEST(RunQueueTest, IdleMeansThatNoRunIsUnderWay) {
  RunQueue queue;
  queue.PushForm(FormOf(1));
  queue.PushRun(RunOf(1, 1));
  queue.Pop();
  queue.Pop();

  EXPECT_FALSE(queue.WaitUntilIdle(absl::ZeroDuration()));
  queue.Done(CallId(1));
  EXPECT_TRUE(queue.WaitUntilIdle(absl::ZeroDuration()));
}

}  // namespace
}  // namespace pipestage
