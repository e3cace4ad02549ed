#include "worker/worker.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error_info.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/exact_sum.h"
#include "worker/testing/fake_coordinator.h"
#include "worker/testing/toy_pipeline.h"
#include "worker/testing/toy_stage.h"
#include "worker/transport/inproc_communicator.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kFailed = v1::WorkerMessage::kCallFailed;
constexpr auto kDone = v1::WorkerMessage::kCallDone;

std::string Doubles(const std::vector<double>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(double));
}

std::vector<double> FromDoubles(const std::string& bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<double> Rows(int count, double first = 0) {
  std::vector<double> rows(count);
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

std::vector<double> Digits(std::vector<double> rows, int count) {
  for (double& row : rows) {
    for (int s = 1; s <= count; ++s) row = 10 * row + s;
  }
  return rows;
}

// Workers in this process, attached to a coordinator that does what the test
// says.
class WorkerTest : public ::testing::Test {
 protected:
  void Start(int num_ranks, BeforeForward before_forward = nullptr) {
    num_ranks_ = num_ranks;
    coordinator_ = std::make_unique<FakeCoordinator>(num_ranks);
    loader_ = std::make_unique<ToyStageLoader>(std::move(before_forward));
    for (int r = 0; r < num_ranks; ++r) {
      workers_.push_back(std::make_unique<Worker>(OptionsOf(r)));
      workers_.back()->Start();
    }
    ASSERT_TRUE(coordinator_->WaitForRanks());
  }

  Worker::Options OptionsOf(int rank) {
    Worker::Options options;
    options.coordinator = coordinator_->address();
    options.repository = ::testing::TempDir() + "/worker_test";
    options.name = absl::StrCat("w", rank);
    options.incarnation = Incarnation(100 + rank);
    options.requested_rank = rank;
    options.backends = {"inproc"};
    options.communicator_factory = [](const std::string&,
                                      const CommunicatorOptions& options) {
      return InprocCommunicator::Create(options);
    };
    options.min_backoff = absl::Milliseconds(5);
    options.feed_window_bytes = feed_window_bytes_;
    options.loader = loader_.get();
    options.clock = Clock::Real();
    options.random = [] { return 0.5; };
    if (adapt_) adapt_(options);
    return options;
  }

  void SayShutdown() {
    v1::CoordinatorMessage shutdown;
    shutdown.mutable_shutdown()->set_reason("test");
    coordinator_->Send(0, shutdown);
  }

  // Loads a pipeline and installs plans for up to `max_microbatches`.
  void Serve(const ToyPipeline& pipeline, int max_microbatches) {
    pipeline_ = pipeline;
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(
        digest_,
        WriteToyPackage(::testing::TempDir() + "/worker_test", pipeline));
    const int stages_per_rank =
        static_cast<int>(pipeline.stages.size()) / num_ranks_;
    ASSERT_THAT(coordinator_->Load(pipeline.name, pipeline.version, digest_,
                                   stages_per_rank),
                IsOk());
    for (int m = 1; m <= max_microbatches; ++m) {
      coordinator_->Install(MakeToyPlans(num_ranks_, stages_per_rank, m));
    }
  }

  v1::CoordinatorMessage MakeRun(int64_t call, const std::vector<double>& x,
                                 int num_microbatches, bool feed = true) {
    const int stages_per_rank =
        static_cast<int>(pipeline_.stages.size()) / num_ranks_;
    v1::CoordinatorMessage message;
    v1::Run& run = *message.mutable_run();
    run.set_call_id(call);
    run.set_plan_id(
        MakeToyPlans(num_ranks_, stages_per_rank, num_microbatches)[0].id);
    run.set_generation(1);
    run.set_model(pipeline_.name);
    run.set_version(pipeline_.version);
    run.set_digest(digest_);
    run.set_rows(x.size());
    run.add_outputs(0);
    run.set_with_loss(true);
    if (feed) *run.add_feeds() = MakeFeed(call, x, num_microbatches).feed();
    return message;
  }

  v1::CoordinatorMessage MakeFeed(int64_t call, const std::vector<double>& x,
                                  int num_microbatches) {
    v1::CoordinatorMessage message;
    v1::FeedData& feed = *message.mutable_feed();
    feed.set_call_id(call);
    feed.set_num_microbatches(num_microbatches);
    feed.set_data(Doubles(x));
    return message;
  }

  void Run(int64_t call, const std::vector<double>& x, int num_microbatches,
           bool feed = true) {
    for (int r = 0; r < num_ranks_; ++r) {
      coordinator_->Send(r, MakeRun(call, x, num_microbatches, feed));
    }
  }

  // The end of a call on the last rank.
  v1::CallDone AwaitDone(int64_t call, int rank) {
    return coordinator_
        ->Await(rank,
                [call](const v1::WorkerMessage& message) {
                  return message.kind_case() == kDone &&
                         message.call_done().call_id() == call;
                })
        .call_done();
  }

  void ExpectExact(int64_t call, const std::vector<double>& x) {
    const v1::CallDone done = AwaitDone(call, num_ranks_ - 1);
    const auto y = Digits(x, static_cast<int>(pipeline_.stages.size()));
    ASSERT_EQ(done.outputs_size(), 1) << done.DebugString();
    EXPECT_TRUE(done.complete());
    EXPECT_EQ(FromDoubles(done.outputs(0).data()), y);
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(
        ExactSum sum,
        ExactSum::FromPartials(std::vector<double>(
            done.losses().partials().begin(), done.losses().partials().end())));
    EXPECT_EQ(sum.Round(), std::accumulate(y.begin(), y.end(), 0.0));
  }

  int num_ranks_ = 0;
  int64_t feed_window_bytes_ = 1 << 20;
  std::function<void(Worker::Options&)> adapt_;
  std::unique_ptr<FakeCoordinator> coordinator_;
  std::unique_ptr<ToyStageLoader> loader_;
  std::vector<std::unique_ptr<Worker>> workers_;
  ToyPipeline pipeline_;
  std::string digest_;
};

TEST_F(WorkerTest, HelloSaysWhoTheWorkerIs) {
  Start(1);

  const v1::Hello hello = coordinator_->hello(0);

  EXPECT_EQ(hello.name(), "w0");
  EXPECT_EQ(hello.incarnation(), 100);
  EXPECT_EQ(hello.device(), "cpu");
  EXPECT_EQ(hello.backends(0), "inproc");
}

TEST_F(WorkerTest, CallsRunEndToEnd) {
  Start(2);
  Serve(DigitPipeline(4), 3);
  ASSERT_THAT(coordinator_->Form(1), IsOk());

  for (int call = 1; call <= 5; ++call) Run(call, Rows(7, 10 * call), 3);

  for (int call = 1; call <= 5; ++call) {
    ExpectExact(call, Rows(7, 10 * call));
    EXPECT_TRUE(AwaitDone(call, 0).complete());
  }
}

TEST_F(WorkerTest, FeedLimitRisesAsCallsTakeWhatTheyWereFed) {
  feed_window_bytes_ = 32;
  Start(1);
  Serve(DigitPipeline(2), 2);
  ASSERT_THAT(coordinator_->Form(1), IsOk());

  Run(1, Rows(4), 2);  // 16 bytes a microbatch

  constexpr auto kFeedLimit = v1::WorkerMessage::kFeedLimit;
  EXPECT_EQ(coordinator_->hello(0).feed_window_bytes(), 32);
  EXPECT_EQ(coordinator_->Await(0, kFeedLimit).feed_limit().bytes(), 48);
  EXPECT_EQ(coordinator_->Await(0, kFeedLimit).feed_limit().bytes(), 64);
  ExpectExact(1, Rows(4));
}

TEST_F(WorkerTest, FeedsOfACallThatIsNotKnownAreGivenBack) {
  feed_window_bytes_ = 32;
  Start(1);

  coordinator_->Send(0, MakeFeed(/*call=*/77, Rows(4), 2));

  EXPECT_EQ(coordinator_->Await(0, v1::WorkerMessage::kFeedLimit)
                .feed_limit()
                .bytes(),
            64);
}

TEST_F(WorkerTest, OneRankNeedsNoOther) {
  Start(1);
  Serve(DigitPipeline(2), 2);
  ASSERT_THAT(coordinator_->Form(1), IsOk());

  Run(1, Rows(3), 2);

  ExpectExact(1, Rows(3));
}

TEST_F(WorkerTest, FeedsMayComeAfterTheRun) {
  Start(2);
  Serve(DigitPipeline(2), 2);
  ASSERT_THAT(coordinator_->Form(1), IsOk());

  Run(1, Rows(4), 2, /*feed=*/false);
  coordinator_->Send(0, MakeFeed(1, Rows(4), 2));

  ExpectExact(1, Rows(4));
}

TEST_F(WorkerTest, PingIsAnsweredWhileAStageComputes) {
  absl::Notification computing;
  absl::Notification go_on;
  Start(1, [&](StageIndex) {
    computing.Notify();
    go_on.WaitForNotification();
    return absl::OkStatus();
  });
  Serve(DigitPipeline(1), 1);
  ASSERT_THAT(coordinator_->Form(1), IsOk());
  Run(1, Rows(1), 1);
  computing.WaitForNotification();

  v1::CoordinatorMessage ping;
  ping.mutable_ping()->set_sequence(7);
  coordinator_->Send(0, ping);
  const auto pong = coordinator_->Await(0, v1::WorkerMessage::kPong).pong();

  EXPECT_EQ(pong.sequence(), 7);
  EXPECT_GT(pong.resident_bytes(), 1 << 20);
  go_on.Notify();
  ExpectExact(1, Rows(1));
}

TEST_F(WorkerTest, FailedCallIsReportedAndTheNextOnesAreExact) {
  ToyPipeline pipeline = DigitPipeline(3);
  pipeline.name = "boom";
  pipeline.stages[1].module = "boom";
  pipeline.stages[1].params = R"({"s":2,"at":11})";
  Start(3);
  Serve(pipeline, 3);
  ASSERT_THAT(coordinator_->Form(1), IsOk());

  Run(1, Rows(3), 3);
  Run(2, Rows(3, 10), 3);
  Run(3, Rows(3, 20), 3);

  const auto failed = coordinator_->Await(1, kFailed).call_failed();
  EXPECT_EQ(failed.call_id(), 1);
  EXPECT_THAT(FromRpcStatus(failed.error()),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("stage 1 failed on microbatch 1 (action 1F1, "
                                 "worker w1, rank 1): boom")));
  EXPECT_FALSE(AwaitDone(1, 2).complete());
  ExpectExact(2, Rows(3, 10));
  ExpectExact(3, Rows(3, 20));
}

TEST_F(WorkerTest, CancelReachesAWaitingCall) {
  Start(2);
  Serve(DigitPipeline(2), 2);
  ASSERT_THAT(coordinator_->Form(1), IsOk());
  Run(1, Rows(4), 2, /*feed=*/false);
  Run(2, Rows(4), 2);

  v1::CoordinatorMessage cancel;
  cancel.mutable_cancel()->set_call_id(1);
  for (int r : {0, 1}) coordinator_->Send(r, cancel);

  EXPECT_FALSE(AwaitDone(1, 0).complete());
  EXPECT_FALSE(AwaitDone(1, 1).complete());
  ExpectExact(2, Rows(4));
}

TEST_F(WorkerTest, RunOfAnotherGenerationIsDropped) {
  Start(1);
  Serve(DigitPipeline(1), 1);
  ASSERT_THAT(coordinator_->Form(1), IsOk());

  auto stale = MakeRun(1, Rows(1), 1);
  stale.mutable_run()->set_generation(0);
  coordinator_->Send(0, stale);
  Run(2, Rows(1), 1);

  const auto first = coordinator_->Await(0, kDone);
  EXPECT_EQ(first.call_done().call_id(), 2);
}

TEST_F(WorkerTest, PlanThatIsNotInstalledFailsTheCall) {
  Start(1);
  Serve(DigitPipeline(1), 1);
  ASSERT_THAT(coordinator_->Form(1), IsOk());

  Run(1, Rows(9), 9);
  Run(2, Rows(1), 1);

  const auto failed = coordinator_->Await(0, kFailed).call_failed();
  EXPECT_THAT(
      FromRpcStatus(failed.error()),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("is not installed"), HasSubstr("worker w0"))));
  EXPECT_FALSE(AwaitDone(1, 0).complete());
  ExpectExact(2, Rows(1));
}

TEST_F(WorkerTest, ShapesWithoutMeaningAreRefusedByAllRanksAlike) {
  Start(2);
  Serve(DigitPipeline(2), 3);
  ASSERT_THAT(coordinator_->Form(1), IsOk());

  for (int r : {0, 1}) {
    auto run = MakeRun(1, Rows(3), 3);
    run.mutable_run()->set_rows(2);
    coordinator_->Send(r, run);
  }
  Run(2, Rows(3), 3);

  for (int r : {0, 1}) {
    EXPECT_THAT(
        FromRpcStatus(coordinator_->Await(r, kFailed).call_failed().error()),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 rows")));
  }
  ExpectExact(2, Rows(3));
}

TEST_F(WorkerTest, CallOneRankCannotBeginEndsTheGeneration) {
  Start(2);
  Serve(DigitPipeline(2), 2);
  ASSERT_THAT(coordinator_->Form(1), IsOk());
  v1::CoordinatorMessage forget;
  forget.mutable_forget_plan()->set_plan_id(MakeToyPlans(2, 1, 2)[0].id);
  coordinator_->Send(1, forget);

  Run(1, Rows(4), 2);

  const auto failed =
      coordinator_->Await(1, v1::WorkerMessage::kCommunicatorFailed);
  EXPECT_EQ(failed.communicator_failed().generation(), 1);
  coordinator_->Install(MakeToyPlans(2, 1, 2));
  ASSERT_THAT(coordinator_->Form(2), IsOk());
  for (int r : {0, 1}) {
    auto run = MakeRun(2, Rows(4), 2);
    run.mutable_run()->set_generation(2);
    coordinator_->Send(r, run);
  }
  ExpectExact(2, Rows(4));
}

TEST_F(WorkerTest, AbortEndsARunAndTheNextGenerationWorks) {
  Start(2);
  Serve(DigitPipeline(2), 2);
  ASSERT_THAT(coordinator_->Form(1), IsOk());
  Run(1, Rows(4), 2, /*feed=*/false);
  Run(2, Rows(4), 2);

  v1::CoordinatorMessage abort;
  abort.mutable_abort_communicator()->set_generation(1);
  for (int r : {0, 1}) coordinator_->Send(r, abort);
  ASSERT_THAT(coordinator_->Form(2), IsOk());
  for (int r : {0, 1}) {
    auto run = MakeRun(3, Rows(4), 2);
    run.mutable_run()->set_generation(2);
    coordinator_->Send(r, run);
  }

  ExpectExact(3, Rows(4));
}

TEST_F(WorkerTest, AbortWhileFormingEndsTheWaitForTheOthers) {
  Start(1);
  v1::CoordinatorMessage form;
  form.mutable_form_communicator()->set_generation(1);
  form.mutable_form_communicator()->set_rank(1);
  form.mutable_form_communicator()->set_num_ranks(2);
  form.mutable_form_communicator()->set_store_prefix("never");
  form.mutable_form_communicator()->set_timeout_s(60);
  coordinator_->Send(0, form);

  v1::CoordinatorMessage abort;
  abort.mutable_abort_communicator()->set_generation(1);
  coordinator_->Send(0, abort);

  // It is no news that the coordinator ended it; the next one forms at once.
  EXPECT_THAT(coordinator_->Form(2), IsOk());
}

TEST_F(WorkerTest, LostWorkerEndsTheGenerationOfTheOther) {
  Start(2);
  Serve(DigitPipeline(2), 2);
  ASSERT_THAT(coordinator_->Form(1), IsOk());
  Run(1, Rows(4), 2, /*feed=*/false);

  workers_[0].reset();

  const auto failed =
      coordinator_->Await(1, v1::WorkerMessage::kCommunicatorFailed);
  EXPECT_EQ(GetReason(FromRpcStatus(failed.communicator_failed().error())),
            reason::kCommunicatorFailed);
}

TEST_F(WorkerTest, ReattachesAndKeepsItsModels) {
  Start(2);
  Serve(DigitPipeline(2), 2);
  ASSERT_THAT(coordinator_->Form(1), IsOk());
  Run(1, Rows(4), 2, /*feed=*/false);

  for (int r : {0, 1}) coordinator_->Cut(r);
  ASSERT_TRUE(coordinator_->WaitForRanks());

  EXPECT_THAT(workers_[0]->models().Find({"toy", "1", digest_}), IsOk());
  coordinator_->Install(MakeToyPlans(2, 1, 2));
  ASSERT_THAT(coordinator_->Form(2), IsOk());
  for (int r : {0, 1}) {
    auto run = MakeRun(2, Rows(4), 2);
    run.mutable_run()->set_generation(2);
    coordinator_->Send(r, run);
  }
  ExpectExact(2, Rows(4));
}

TEST_F(WorkerTest, FindsACoordinatorThatIsRestarted) {
  Start(1);
  const int port = coordinator_->port();

  coordinator_.reset();
  coordinator_ = std::make_unique<FakeCoordinator>(1, port);

  EXPECT_TRUE(coordinator_->WaitForRanks());
}

TEST_F(WorkerTest, RefusedWorkerComesBackLater) {
  Start(1);
  coordinator_->Refuse(
      grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full"));
  coordinator_->Cut(0);
  while (coordinator_->hellos() < 3) absl::SleepFor(absl::Milliseconds(1));

  coordinator_->Refuse(grpc::Status::OK);

  EXPECT_TRUE(coordinator_->WaitForRanks());
}

TEST_F(WorkerTest, BrokenPackageLoadsNothing) {
  Start(2);
  Serve(DigitPipeline(2), 1);

  const absl::Status status = coordinator_->Load("toy", "1", "0123", 1);

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr("0123"), HasSubstr(digest_))));
  EXPECT_EQ(GetReason(status), reason::kModelBroken);
  EXPECT_THAT(workers_[0]->models().Find({"toy", "1", digest_}), IsOk());
}

TEST_F(WorkerTest, UnloadedModelIsGone) {
  Start(1);
  Serve(DigitPipeline(1), 1);
  ASSERT_THAT(coordinator_->Form(1), IsOk());
  v1::CoordinatorMessage unload;
  unload.mutable_unload_model()->set_model("toy");
  unload.mutable_unload_model()->set_version("1");
  unload.mutable_unload_model()->set_digest(digest_);
  coordinator_->Send(0, unload);
  // Loads and unloads are done in order.
  ToyPipeline other = DigitPipeline(1);
  other.name = "other";
  const std::string digest = digest_;
  Serve(other, 1);

  pipeline_ = DigitPipeline(1);
  digest_ = digest;
  Run(1, Rows(1), 1);

  const auto failed = coordinator_->Await(0, kFailed).call_failed();
  EXPECT_EQ(GetReason(FromRpcStatus(failed.error())), reason::kModelNotLoaded);
}

TEST_F(WorkerTest, StopStaysUntilTheCoordinatorLetsGo) {
  absl::Notification computing;
  absl::Notification go_on;
  Start(1, [&](StageIndex) {
    if (!computing.HasBeenNotified()) computing.Notify();
    go_on.WaitForNotification();
    return absl::OkStatus();
  });
  Serve(DigitPipeline(1), 2);
  ASSERT_THAT(coordinator_->Form(1), IsOk());
  Run(1, Rows(2), 2);
  computing.WaitForNotification();

  std::thread stopper([&] { workers_[0]->Stop(absl::Seconds(60)); });
  const auto leaving = coordinator_->Await(0, v1::WorkerMessage::kLeaving);
  EXPECT_FALSE(leaving.leaving().at_once());
  Run(2, Rows(3), 2);  // was sent before the coordinator heard of it
  go_on.Notify();
  ExpectExact(1, Rows(2));
  ExpectExact(2, Rows(3));
  SayShutdown();
  stopper.join();
}

TEST_F(WorkerTest, StopDoesNotWaitLongerThanItsPatience) {
  Start(1);
  ASSERT_THAT(coordinator_->Form(1), IsOk());

  workers_[0]->Stop(absl::Milliseconds(10));

  EXPECT_EQ(coordinator_->Await(0, v1::WorkerMessage::kLeaving).kind_case(),
            v1::WorkerMessage::kLeaving);
}

TEST_F(WorkerTest, AStageThatDoesNotComeBackIsReportedAndGivenUp) {
  absl::Notification go_on, given_up;
  std::string what;
  adapt_ = [&](Worker::Options& options) {
    options.stage_timeout = absl::Milliseconds(20);
    options.on_stuck = [&](const std::string& reason) {
      what = reason;
      given_up.Notify();
    };
  };
  Start(1, [&](StageIndex) {
    go_on.WaitForNotification();
    return absl::OkStatus();
  });
  Serve(DigitPipeline(1), 2);
  ASSERT_THAT(coordinator_->Form(1), IsOk());

  Run(7, Rows(2), 2);
  const auto leaving = coordinator_->Await(0, v1::WorkerMessage::kLeaving);
  given_up.WaitForNotification();

  EXPECT_TRUE(leaving.leaving().at_once());
  EXPECT_EQ(leaving.leaving().reason(), what);
  EXPECT_THAT(what,
              HasSubstr("stage 0 has computed on microbatch 0 of call 7"));
  go_on.Notify();
  workers_[0].reset();
}

TEST_F(WorkerTest, PongsSayWhatIsComputed) {
  absl::Notification computing, go_on;
  Start(1, [&](StageIndex) {
    if (!computing.HasBeenNotified()) computing.Notify();
    go_on.WaitForNotification();
    return absl::OkStatus();
  });
  Serve(DigitPipeline(1), 1);
  ASSERT_THAT(coordinator_->Form(1), IsOk());
  v1::CoordinatorMessage ping;
  ping.mutable_ping()->set_sequence(1);

  coordinator_->Send(0, ping);
  const auto idle = coordinator_->Await(0, v1::WorkerMessage::kPong).pong();
  Run(7, Rows(1), 1);
  computing.WaitForNotification();
  coordinator_->Send(0, ping);
  const auto busy = coordinator_->Await(0, v1::WorkerMessage::kPong).pong();
  go_on.Notify();
  ExpectExact(7, Rows(1));

  EXPECT_EQ(idle.calls(), 0);
  EXPECT_FALSE(idle.has_computing());
  EXPECT_EQ(busy.calls(), 1);
  EXPECT_EQ(busy.computing().call_id(), 7);
  EXPECT_EQ(busy.computing().stage(), 0);
}

TEST_F(WorkerTest, ShutdownMessageIsHeard) {
  Start(1);

  SayShutdown();

  EXPECT_TRUE(workers_[0]->shutdown_requested().WaitForNotificationWithTimeout(
      absl::Seconds(10)));
}

}  // namespace
}  // namespace pipestage
