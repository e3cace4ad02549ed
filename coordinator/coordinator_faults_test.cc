// Stages that fail, workers that go, callers that lose patience, and shutdown.

#include <atomic>
#include <chrono>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/error_info.h"
#include "base/grpc_status.h"
#include "base/status_matchers.h"
#include "coordinator/model_ref.h"
#include "coordinator/testing/test_cluster.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

// Holds every forward of one stage while it is closed.
class Gate {
 public:
  void Close() {
    absl::MutexLock lock(&mu_);
    open_ = false;
  }
  void Open() {
    absl::MutexLock lock(&mu_);
    open_ = true;
  }
  void Pass() {
    absl::MutexLock lock(&mu_);
    ++waiting_;
    mu_.Await(absl::Condition(&open_));
    --waiting_;
  }
  void AwaitWaiting() {
    absl::MutexLock lock(&mu_);
    const auto waits = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return waiting_ > 0;
    };
    mu_.Await(absl::Condition(&waits));
  }

 private:
  absl::Mutex mu_;
  bool open_ ABSL_GUARDED_BY(mu_) = true;
  int waiting_ ABSL_GUARDED_BY(mu_) = 0;
};

class FaultsTest : public ::testing::Test {
 protected:
  FaultsTest() = default;
  // A test may end while a call is held.
  ~FaultsTest() override { gate_.Open(); }

  TestCluster::Options MakeOptions() {
    TestCluster::Options options;
    options.server = [](Server::Options& server) {
      server.admission.max_waiting = 2;
      server.admission.max_running = 1;
    };
    options.worker = [this](int rank, FakeWorker::Options& worker) {
      worker.before_forward = [this](int stage, int microbatch) {
        return BeforeForward(stage, microbatch);
      };
    };
    return options;
  }

  absl::Status BeforeForward(int stage, int microbatch) {
    if (stage == 1) gate_.Pass();
    if (stage != failing_stage_ || microbatch != failing_microbatch_) {
      return absl::OkStatus();
    }
    return WithReason(
        absl::AbortedError(absl::StrCat("stage ", stage, ", microbatch ",
                                        microbatch, ": index out of range")),
        reason::kStageFailed,
        {{"stage", absl::StrCat(stage)},
         {"microbatch", absl::StrCat(microbatch)}});
  }

  // Starts a call and waits until a worker holds it.
  std::thread StartHeldCall(absl::StatusOr<v1::EvalResponse>& answer) {
    gate_.Close();
    std::thread call([this, &answer] { answer = cluster_.Eval(request_); });
    gate_.AwaitWaiting();
    return call;
  }

  void ExpectNextCallIsExact() {
    const auto request = DigitsRequest(5, 2, 300);
    const auto response = cluster_.Eval(request);
    ASSERT_THAT(response, IsOk());
    EXPECT_TRUE(IsExact(request, *response, 2));
  }

  bool AwaitIdle() {
    return cluster_.Await([](const v1::Status& status) {
      return status.queue().calls_running() == 0 &&
             status.queue().calls_waiting() == 0;
    });
  }

  Gate gate_;
  std::atomic<int> failing_stage_ = -1;
  std::atomic<int> failing_microbatch_ = 0;
  const v1::EvalRequest request_ = DigitsRequest(6, 3);
  TestCluster cluster_{MakeOptions()};
};

TEST_F(FaultsTest, StageThatFailsIsNamedWithWorkerAndMicrobatch) {
  for (const int stage : {0, 1}) {
    failing_stage_ = stage;
    failing_microbatch_ = 2;

    const auto response = cluster_.Eval(request_);

    EXPECT_THAT(response, StatusIs(absl::StatusCode::kAborted,
                                   HasSubstr(absl::StrCat(
                                       "worker w", stage, " (rank ", stage,
                                       "): stage ", stage, ", microbatch 2"))));
    const auto info = GetErrorInfo(response.status());
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->reason(), reason::kStageFailed);
    EXPECT_EQ(info->metadata().at("microbatch"), "2");
    EXPECT_EQ(info->metadata().at("worker"), absl::StrCat("w", stage));
  }
  failing_stage_ = -1;
  ExpectNextCallIsExact();
  EXPECT_EQ(cluster_.GetStatus().generation(), 1);
  EXPECT_EQ(cluster_.GetStatus().calls_failed(), 2);
}

TEST_F(FaultsTest, LostWorkerEndsCallsByNameAndThePipelineFormsAgain) {
  absl::StatusOr<v1::EvalResponse> answer;
  std::thread call = StartHeldCall(answer);

  cluster_.worker(1).Kill();
  call.join();

  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("worker w1 (rank 1) was lost")));
  EXPECT_EQ(GetReason(answer.status()), reason::kWorkerLost);
  EXPECT_THAT(cluster_.Eval(request_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("lacks 1 of 2 workers: rank 1")));
  EXPECT_TRUE(AwaitIdle());

  gate_.Open();
  cluster_.StartWorker(1);
  ASSERT_TRUE(cluster_.AwaitReady());
  ExpectNextCallIsExact();
  EXPECT_EQ(cluster_.GetStatus().generation(), 2);
  EXPECT_EQ(cluster_.worker(1).Count(v1::CoordinatorMessage::kLoadStages), 1);
}

TEST_F(FaultsTest, CommunicatorThatFailsIsTheCauseWhenNobodyIsLost) {
  absl::StatusOr<v1::EvalResponse> answer;
  std::thread call = StartHeldCall(answer);

  v1::WorkerMessage message;
  auto* failed = message.mutable_communicator_failed();
  failed->set_generation(1);
  *failed->mutable_error() =
      ToRpcStatus(absl::InternalError("the pair is out of step"));
  cluster_.worker(0).Send(message);
  call.join();

  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("the pair is out of step")));
  EXPECT_EQ(GetReason(answer.status()), reason::kCommunicatorFailed);
  gate_.Open();
  ASSERT_TRUE(cluster_.Await([](const v1::Status& status) {
    return status.generation() == 2 && status.state() == v1::READY;
  }));
  ExpectNextCallIsExact();
}

TEST_F(FaultsTest, DeadlineAnswersAtOnceAndStopsTheWorkers) {
  gate_.Close();

  const auto response = cluster_.Eval(request_, absl::Milliseconds(200));

  EXPECT_THAT(response, StatusIs(absl::StatusCode::kDeadlineExceeded));
  cluster_.worker(0).AwaitCount(v1::CoordinatorMessage::kCancel, 1);
  EXPECT_EQ(cluster_.GetStatus().queue().calls_running(), 1);
  gate_.Open();
  EXPECT_TRUE(AwaitIdle());
  ExpectNextCallIsExact();
}

TEST_F(FaultsTest, CancelledCallStopsAtTheNextAction) {
  gate_.Close();
  grpc::ClientContext context;
  v1::EvalResponse response;
  std::thread call([&] {
    EXPECT_THAT(
        FromGrpcStatus(cluster_.pipeline->Eval(&context, request_, &response)),
        StatusIs(absl::StatusCode::kCancelled));
  });
  gate_.AwaitWaiting();
  const int before = cluster_.worker(1).forwards();

  context.TryCancel();
  call.join();
  cluster_.worker(1).AwaitCount(v1::CoordinatorMessage::kCancel, 1);
  gate_.Open();

  EXPECT_TRUE(AwaitIdle());
  EXPECT_LE(cluster_.worker(1).forwards(), before + 1);
  ExpectNextCallIsExact();
}

TEST_F(FaultsTest, FullQueueRefusesAndCallsThatWaitCanLeave) {
  absl::StatusOr<v1::EvalResponse> answer;
  std::thread call = StartHeldCall(answer);
  std::thread waiting[2];
  for (std::thread& thread : waiting) {
    thread = std::thread([this] {
      EXPECT_THAT(cluster_.Eval(request_, absl::Seconds(3)),
                  StatusIs(absl::StatusCode::kDeadlineExceeded));
    });
  }
  ASSERT_TRUE(cluster_.Await([](const v1::Status& status) {
    return status.queue().calls_waiting() == 2;
  }));

  const auto refused = cluster_.Eval(request_);

  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("try again")));
  EXPECT_EQ(GetReason(refused.status()), reason::kQueueFull);
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(cluster_.worker(0).Count(v1::CoordinatorMessage::kRun), 1);
  gate_.Open();
  call.join();
  EXPECT_THAT(answer, IsOk());
  ExpectNextCallIsExact();
}

TEST_F(FaultsTest, WhatWorkersSayOfNoCallOrAgainIsIgnored) {
  ASSERT_THAT(cluster_.Eval(request_), IsOk());
  const int64_t call = cluster_.worker(1).last_call();
  absl::StatusOr<v1::EvalResponse> answer;
  std::thread held = StartHeldCall(answer);

  // The last: what the held call would be called by a coordinator before this
  // one, which a worker may still be answering.
  constexpr int64_t kOrdinal = (1 << 20) - 1;
  for (const int64_t id :
       {call, int64_t{999}, int64_t{-1}, (call + 1) & kOrdinal}) {
    v1::WorkerMessage done;
    done.mutable_call_done()->set_call_id(id);
    cluster_.worker(1).Send(done);
    v1::WorkerMessage failed;
    failed.mutable_call_failed()->set_call_id(id);
    cluster_.worker(0).Send(failed);
  }
  gate_.Open();
  held.join();

  ASSERT_THAT(answer, IsOk());
  EXPECT_TRUE(IsExact(request_, *answer, 2));
  ExpectNextCallIsExact();
}

TEST_F(FaultsTest, RepeatedResultsAreCountedOnce) {
  absl::StatusOr<v1::EvalResponse> answer;
  std::thread held = StartHeldCall(answer);
  v1::WorkerMessage message;
  auto* output = message.mutable_output();
  output->set_call_id(cluster_.worker(1).last_call());
  output->set_first_microbatch(0);
  output->set_num_microbatches(1);
  const double right[] = {DigitsOf(0, 2), DigitsOf(1, 2)};
  output->set_data(right, sizeof(right));
  cluster_.worker(1).Send(message);
  cluster_.worker(1).Send(message);

  gate_.Open();  // the worker sends that part once more
  held.join();

  ASSERT_THAT(answer, IsOk());
  EXPECT_TRUE(IsExact(request_, *answer, 2));
}

TEST_F(FaultsTest, WorkerThatSendsAnotherSizeIsNamed) {
  absl::StatusOr<v1::EvalResponse> answer;
  std::thread held = StartHeldCall(answer);
  v1::WorkerMessage message;
  auto* output = message.mutable_output();
  output->set_call_id(cluster_.worker(1).last_call());
  output->set_num_microbatches(1);
  output->set_data("12345678");
  cluster_.worker(1).Send(message);
  held.join();
  gate_.Open();

  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kInternal,
                               HasSubstr("w1 (rank 1): output y")));
  EXPECT_TRUE(AwaitIdle());
  ExpectNextCallIsExact();
}

TEST_F(FaultsTest, SpareAndStrangerAreRefused) {
  FakeFabric fabric;
  FakeWorker::Options spare;
  spare.address = cluster_.server().address();
  spare.fabric = &fabric;
  spare.incarnation = 1000;
  FakeWorker any_rank(spare);
  spare.incarnation = 1001;
  spare.requested_rank = 1;
  FakeWorker taken_rank(spare);

  EXPECT_THAT(any_rank.Wait(), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(taken_rank.Wait(), StatusIs(absl::StatusCode::kAlreadyExists));
  ExpectNextCallIsExact();
}

TEST_F(FaultsTest, FailedLoadLeavesWhatIsServed) {
  WriteTestModel(cluster_.repository(), {.name = "digits", .version = "2"});
  const std::string file =
      absl::StrCat(cluster_.repository(), "/digits/2/pipeline.json");
  ASSERT_EQ(truncate(file.c_str(), 20), 0);
  grpc::ClientContext context;
  v1::LoadModelRequest request;
  request.mutable_model()->set_name("digits");
  v1::Model model;

  const absl::Status status =
      FromGrpcStatus(cluster_.models->LoadModel(&context, request, &model));

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("pipeline.json")));
  EXPECT_EQ(GetReason(status), reason::kModelBroken);
  ExpectNextCallIsExact();
}

TEST_F(FaultsTest, DrainFinishesWhatRunsAndRefusesWhatIsNew) {
  absl::StatusOr<v1::EvalResponse> answer;
  std::thread call = StartHeldCall(answer);
  std::thread drain([this] { cluster_.server().Drain(absl::Seconds(20)); });
  ASSERT_TRUE(cluster_.Await(
      [](const v1::Status& status) { return status.state() == v1::DRAINING; }));

  absl::Status refused = absl::OkStatus();
  ASSERT_TRUE(cluster_.Await([&](const v1::Status&) {
    refused = cluster_.Eval(request_, absl::Milliseconds(500)).status();
    return GetReason(refused) == reason::kDraining;
  }));
  gate_.Open();
  call.join();
  drain.join();

  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_THAT(answer, IsOk());
  EXPECT_TRUE(IsExact(request_, *answer, 2));
  EXPECT_EQ(cluster_.worker(0).Count(v1::CoordinatorMessage::kShutdown), 1);
}

// The serving status that grpc.health.v1 gives: 1 = SERVING, 2 = NOT_SERVING.
int HealthOf(const std::shared_ptr<grpc::Channel>& channel,
             const std::string& service) {
  // HealthCheckRequest{service} and HealthCheckResponse{status}, each its
  // field 1.
  std::string request = service;
  if (!service.empty()) {
    request.insert(0, 1, static_cast<char>(service.size()));
    request.insert(0, 1, '\x0a');
  }
  const grpc::Slice slice(request);
  const grpc::ByteBuffer message(&slice, 1);
  grpc::ByteBuffer response;
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel);
  grpc::Status status;
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                    message, &queue);
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  std::vector<grpc::Slice> slices;
  if (!status.ok() || !response.Dump(&slices).ok()) return -1;
  std::string bytes;
  for (const auto& part : slices) {
    bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return bytes.size() == 2 ? bytes[1] : 0;
}

TEST_F(FaultsTest, HealthFollowsThePipeline) {
  constexpr char kService[] = "pipestage.v1.PipelineService";
  EXPECT_EQ(HealthOf(cluster_.channel, ""), 1);
  EXPECT_EQ(HealthOf(cluster_.channel, kService), 1);

  cluster_.worker(0).Kill();
  ASSERT_TRUE(cluster_.Await([](const v1::Status& status) {
    return status.state() == v1::WAITING_FOR_WORKERS;
  }));
  EXPECT_TRUE(cluster_.Await([&](const v1::Status&) {
    return HealthOf(cluster_.channel, kService) == 2;
  }));

  cluster_.StartWorker(0);
  ASSERT_TRUE(cluster_.AwaitReady());
  EXPECT_TRUE(cluster_.Await(
      [&](const v1::Status&) { return HealthOf(cluster_.channel, "") == 1; }));
}

TEST(FormationTest, FailedFormationIsTriedAgain) {
  std::atomic<int> tries = 0;
  TestCluster::Options options;
  options.worker = [&tries](int rank, FakeWorker::Options& worker) {
    if (rank != 0) return;
    worker.form = [&tries] {
      return ++tries < 3 ? absl::InternalError("no route") : absl::OkStatus();
    };
  };

  TestCluster cluster(options);

  EXPECT_EQ(tries, 3);
  EXPECT_EQ(cluster.GetStatus().generation(), 3);
  EXPECT_THAT(cluster.GetStatus().last_failure(), HasSubstr("no route"));
}

TEST(FormationTest, SilentWorkerIsLost) {
  TestCluster::Options options;
  options.server = [](Server::Options& server) {
    server.membership.worker_timeout = absl::Seconds(2);
    server.membership.ping_interval = absl::Milliseconds(100);
  };
  options.worker = [](int rank, FakeWorker::Options& worker) {
    worker.answers_pings = rank != 1;
  };
  TestCluster cluster(options);

  EXPECT_THAT(cluster.worker(1).Wait(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no answer")));

  EXPECT_THAT(cluster.GetStatus().last_failure(),
              HasSubstr("worker w1 (rank 1) was lost"));
}

TEST(StartupTest, ModelsNamedAtStartAreLoadedOnceWorkersAreThere) {
  TestCluster::Options options;
  options.load_models = false;
  options.start_workers = false;
  options.server = [](Server::Options& server) {
    server.load.push_back(*ParseModelRef("digits@1"));
  };
  TestCluster cluster(options);
  cluster.StartWorker(0);
  cluster.StartWorker(1);

  EXPECT_TRUE(cluster.Await(
      [](const v1::Status& status) { return status.serving_size() == 1; }));
}

TEST(StartupTest, AddressBeyondLoopbackMustBeAskedFor) {
  Server::Options options;
  options.address = "0.0.0.0:0";
  options.membership.draw_store_prefix = [] { return "p/"; };
  EXPECT_THAT(Server::Create(options).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("--unsafe-listen-anywhere")));

  options.allow_any_address = true;

  EXPECT_THAT(Server::Create(options).status(), IsOk());
}

TEST(StartupTest, TakenPortIsAnError) {
  TestCluster cluster;
  Server::Options options;
  options.address = cluster.server().address();
  options.membership.draw_store_prefix = [] { return "p/"; };
  auto server = Server::Create(options);
  ASSERT_THAT(server.status(), IsOk());

  EXPECT_THAT((*server)->Start(), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace pipestage
