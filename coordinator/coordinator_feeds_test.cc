// Feeds through the real service: a worker is fed no faster than it wants.

#include <thread>

#include "base/status_matchers.h"
#include "coordinator/testing/test_cluster.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

constexpr int kRows = 1 << 18;  // of eight bytes
constexpr int kWindow = 1 << 20;
constexpr auto kFeed = v1::CoordinatorMessage::kFeed;
constexpr auto kRun = v1::CoordinatorMessage::kRun;

TestCluster::Options NarrowFirstWorker() {
  TestCluster::Options options;
  options.worker = [](int rank, FakeWorker::Options& worker) {
    if (rank == 0) worker.feed_window_bytes = kWindow;
  };
  return options;
}

v1::WorkerMessage LimitOf(int64_t bytes) {
  v1::WorkerMessage message;
  message.mutable_feed_limit()->set_bytes(bytes);
  return message;
}

TEST(CoordinatorFeedsTest, WorkerIsFedUpToItsLimitAndTheRestWhenItIsRaised) {
  TestCluster cluster(NarrowFirstWorker());
  FakeWorker& first = cluster.worker(0);
  const v1::EvalRequest large = DigitsRequest(kRows, 64);
  absl::StatusOr<v1::EvalResponse> answer;
  std::thread client([&] { answer = cluster.Eval(large); });
  first.AwaitCount(kFeed, 4);  // of 256 KiB

  // Small calls go by; each gives the feeds another opportunity to go on.
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] { (void)cluster.Eval(DigitsRequest(1, 1)); });
    first.AwaitCount(kRun, 2 + i);
  }
  const int at_the_limit = first.Count(kFeed);
  first.Send(LimitOf(int64_t{1} << 40));
  client.join();
  for (auto& other : others) other.join();

  EXPECT_EQ(at_the_limit, 4);
  ASSERT_THAT(answer, IsOk());
  EXPECT_TRUE(IsExact(large, *answer, 2));
}

TEST(CoordinatorFeedsTest, LimitThatFallsIsIgnored) {
  TestCluster cluster(NarrowFirstWorker());
  cluster.worker(0).Send(LimitOf(int64_t{1} << 40));
  cluster.worker(0).Send(LimitOf(-1));
  const v1::EvalRequest large = DigitsRequest(kRows, 64);

  const auto answer = cluster.Eval(large);

  ASSERT_THAT(answer, IsOk());
  EXPECT_TRUE(IsExact(large, *answer, 2));
}

TEST(CoordinatorFeedsTest, CancelledCallAtItsLimitLeavesTheNextOneUnharmed) {
  TestCluster cluster(NarrowFirstWorker());
  FakeWorker& first = cluster.worker(0);
  const auto cancelled =
      cluster.Eval(DigitsRequest(kRows, 64), absl::Milliseconds(300));
  ASSERT_EQ(cancelled.status().code(), absl::StatusCode::kDeadlineExceeded);
  first.AwaitCount(v1::CoordinatorMessage::kCancel, 1);

  first.Send(LimitOf(2 * kWindow));
  const v1::EvalRequest small = DigitsRequest(9, 4);
  const auto answer = cluster.Eval(small);

  ASSERT_THAT(answer, IsOk());
  EXPECT_TRUE(IsExact(small, *answer, 2));
}

}  // namespace
}  // namespace pipestage
