// Workers that leave in good order, give up, or forget what they were sent.

#include <atomic>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/synchronization/notification.h"
#include "base/error_info.h"
#include "base/grpc_status.h"
#include "base/status_matchers.h"
#include "coordinator/testing/test_cluster.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

class LeavingTest : public ::testing::Test {
 protected:
  ~LeavingTest() override { LetGo(); }

  TestCluster::Options MakeOptions() {
    TestCluster::Options options;
    options.server = [](Server::Options& server) {
      server.membership.ping_interval = absl::Milliseconds(20);
      server.membership.dispatch_time = absl::Milliseconds(50);
    };
    options.worker = [this](int rank, FakeWorker::Options& worker) {
      worker.forgets_calls = rank == 1 && rank_1_forgets_;
      worker.before_forward = [this](int stage, int) {
        if (stage == 1 && hold_) {
          if (!is_held_.HasBeenNotified()) is_held_.Notify();
          go_on_.WaitForNotification();
        }
        return absl::OkStatus();
      };
    };
    return options;
  }

  // Starts a call and waits until the worker at rank 1 holds it.
  std::thread StartHeldCall(absl::StatusOr<v1::EvalResponse>& answer) {
    hold_ = true;
    std::thread call([this, &answer] { answer = cluster_.Eval(request_); });
    is_held_.WaitForNotification();
    return call;
  }

  void LetGo() {
    if (!go_on_.HasBeenNotified()) go_on_.Notify();
  }

  void SayLeaving(int rank) {
    v1::WorkerMessage leaving;
    leaving.mutable_leaving()->set_reason("it was told to stop");
    cluster_.worker(rank).Send(leaving);
  }

  bool AwaitLeaving() {
    return cluster_.Await([](const v1::Status& status) {
      return absl::c_any_of(status.workers(), [](const v1::WorkerStatus& w) {
        return w.leaving();
      });
    });
  }

  std::atomic<bool> hold_ = false;
  std::atomic<bool> rank_1_forgets_ = false;
  absl::Notification is_held_, go_on_;
  const v1::EvalRequest request_ = DigitsRequest(4, 2);
  TestCluster cluster_{MakeOptions()};
};

TEST_F(LeavingTest, ALeavingWorkerStaysUntilTheCallIsOverEverywhere) {
  absl::StatusOr<v1::EvalResponse> answer;
  std::thread call = StartHeldCall(answer);  // rank 0 has done its part

  SayLeaving(0);
  ASSERT_TRUE(AwaitLeaving());
  const auto refused = cluster_.Eval(request_);
  const v1::Status status = cluster_.GetStatus();
  const int shutdowns =
      cluster_.worker(0).Count(v1::CoordinatorMessage::kShutdown);
  LetGo();
  call.join();
  cluster_.worker(0).AwaitCount(v1::CoordinatorMessage::kShutdown, 1);

  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable,
                                HasSubstr("worker w0 (rank 0) is leaving")));
  EXPECT_EQ(GetReason(refused.status()), reason::kWorkersMissing);
  EXPECT_EQ(status.state(), v1::WAITING_FOR_WORKERS);
  EXPECT_EQ(shutdowns, 0);
  ASSERT_THAT(answer, IsOk());
  EXPECT_TRUE(IsExact(request_, *answer, 2));
}

TEST_F(LeavingTest, AWorkerWithNothingToDoMayGoAtOnceAndAnotherTakesItsPlace) {
  SayLeaving(0);
  cluster_.worker(0).AwaitCount(v1::CoordinatorMessage::kShutdown, 1);
  ASSERT_TRUE(cluster_.Await(
      [](const v1::Status& status) { return status.workers_size() == 1; }));
  EXPECT_THAT(cluster_.GetStatus().last_failure(),
              HasSubstr("worker w0 (rank 0) has left"));

  cluster_.StartWorker(0);
  ASSERT_TRUE(cluster_.AwaitReady());

  const auto answer = cluster_.Eval(request_);
  ASSERT_THAT(answer, IsOk());
  EXPECT_TRUE(IsExact(request_, *answer, 2));
}

TEST_F(LeavingTest, AWorkerThatGivesUpEndsTheCallInItsOwnWords) {
  absl::StatusOr<v1::EvalResponse> answer;
  std::thread call = StartHeldCall(answer);

  v1::WorkerMessage leaving;
  leaving.mutable_leaving()->set_at_once(true);
  leaving.mutable_leaving()->set_reason("stage 1 is stuck");
  cluster_.worker(1).Send(leaving);
  call.join();

  EXPECT_THAT(answer,
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("worker w1 (rank 1) was lost: stage 1 is "
                                 "stuck")));
  EXPECT_EQ(GetReason(answer.status()), reason::kWorkerLost);
}

TEST_F(LeavingTest, ACallThatItsWorkerHasForgottenEndsByName) {
  rank_1_forgets_ = true;
  cluster_.StartWorker(1);
  ASSERT_TRUE(cluster_.AwaitReady());

  const auto answer = cluster_.Eval(request_);

  EXPECT_THAT(
      answer,
      StatusIs(absl::StatusCode::kUnavailable,
               HasSubstr("worker w1 (rank 1) says that it has no calls, but "
                         "has not ended call")));
}

TEST(LinkTest, AStreamThatDoesNotSayHelloIsEnded) {
  TestCluster::Options options;
  options.server = [](Server::Options& server) {
    server.hello_timeout = absl::Milliseconds(50);
  };
  options.start_workers = false;
  TestCluster cluster(options);
  const auto stub = v1::WorkerLink::NewStub(cluster.channel);
  grpc::ClientContext context;
  const auto stream = stub->Attach(&context);
  v1::CoordinatorMessage message;

  EXPECT_FALSE(stream->Read(&message));

  EXPECT_THAT(FromGrpcStatus(stream->Finish()),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("must begin with Hello within 50ms")));
}

}  // namespace
}  // namespace pipestage
