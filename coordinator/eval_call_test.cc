#include "coordinator/eval_call.h"

#include <optional>

#include "base/error_info.h"
#include "base/fake_clock.h"
#include "base/status_matchers.h"
#include "coordinator/testing/test_models.h"
#include "coordinator/testing/test_view.h"
#include "gtest/gtest.h"
#include "tensor/tensor_codec.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

// A call of four rows in two microbatches on two workers, with outputs.
class EvalCallTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteTestModel(repository_, {});
    model_.package = *ModelPackage::Open(repository_, "digits", "1");
    model_.placement = *PlaceStages(2, 2, 0);
    CallInputs inputs;
    inputs.inputs["x"] = *DecodeTensor("x", Rows(4));
    v1::CallOptions options;
    options.set_num_microbatches(2);
    options.set_return_outputs(true);
    auto setup = SetUpEval(model_, options, inputs);
    ASSERT_THAT(setup, IsOk());
    EvalCall::Options call{.setup = *std::move(setup)};
    call.plan = *CompilePlan(call.setup.plan);
    call.reply = reply_;
    call.max_reply_bytes = 1 << 20;
    call.clock = &clock_;
    call.on_finished = [this](const EvalCall&, const absl::Status& status) {
      ++num_answers_;
      answer_ = status;
    };
    call_.emplace(std::move(call));
    view_.Attach(0);
    view_.Attach(1);
    call_->Begin(CallId(7), *view_.Make());
  }

  EvalCall::Outcome Output(int rank, int microbatch) {
    v1::WorkerMessage message;
    FillOutput(microbatch, *message.mutable_output());
    return call_->OnMessage(view_.at(rank), message);
  }

  static void FillOutput(int microbatch, v1::OutputData& output) {
    output.set_call_id(7);
    output.set_first_microbatch(microbatch);
    output.set_num_microbatches(1);
    output.set_data(std::string(16, static_cast<char>('a' + microbatch)));
  }

  EvalCall::Outcome Done(int rank, bool complete = true) {
    v1::WorkerMessage message;
    message.mutable_call_done()->set_call_id(7);
    message.mutable_call_done()->set_complete(complete);
    message.mutable_call_done()->set_busy_s(1);
    message.mutable_call_done()->set_wall_s(rank + 1);
    return call_->OnMessage(view_.at(rank), message);
  }

  EvalCall::Outcome Failed(int rank, const std::string& text) {
    v1::WorkerMessage message;
    message.mutable_call_failed()->set_call_id(7);
    *message.mutable_call_failed()->mutable_error() =
        ToRpcStatus(WithReason(absl::AbortedError(text), reason::kStageFailed));
    return call_->OnMessage(view_.at(rank), message);
  }

  int Cancels(int rank) {
    int cancels = 0;
    for (const auto& message : view_.connection(rank).Take()) {
      cancels += message.has_cancel();
    }
    return cancels;
  }

  const std::string repository_ = MakeTempDir();
  FakeClock clock_;
  TestView view_{2};
  LoadedModel model_;
  std::shared_ptr<v1::EvalResponse> reply_ =
      std::make_shared<v1::EvalResponse>();
  std::optional<EvalCall> call_;
  std::optional<absl::Status> answer_;
  int num_answers_ = 0;
};

TEST_F(EvalCallTest, IsAnsweredWhenTheLastWorkerIsDone) {
  Output(1, 1);
  Output(1, 0);
  EXPECT_FALSE(Done(1).released);
  EXPECT_FALSE(answer_.has_value());
  clock_.Advance(absl::Seconds(4));

  const auto outcome = Done(0);

  EXPECT_TRUE(outcome.released);
  ASSERT_TRUE(answer_.has_value());
  EXPECT_THAT(*answer_, IsOk());
  EXPECT_EQ(reply_->outputs().at("y").data(),
            std::string(16, 'a') + std::string(16, 'b'));
  EXPECT_EQ(reply_->timings().run_s(), 4);
  EXPECT_EQ(reply_->timings().execute_s(), 2);
  EXPECT_EQ(reply_->timings().bubble_ratio(), 0.75);
  EXPECT_EQ(Cancels(0), 0);
}

TEST_F(EvalCallTest, ResultsMayRideOnTheDoneMessage) {
  Done(0);
  v1::WorkerMessage message;
  message.mutable_call_done()->set_complete(true);
  FillOutput(0, *message.mutable_call_done()->add_outputs());
  FillOutput(1, *message.mutable_call_done()->add_outputs());

  EXPECT_TRUE(call_->OnMessage(view_.at(1), message).released);

  EXPECT_THAT(*answer_, IsOk());
}

TEST_F(EvalCallTest, FirstFailureIsTheAnswerAtOnceAndThePlaceStaysTaken) {
  EXPECT_FALSE(Failed(1, "stage 1: boom").released);

  ASSERT_TRUE(answer_.has_value());
  EXPECT_THAT(*answer_, StatusIs(absl::StatusCode::kAborted,
                                 HasSubstr("w1 (rank 1): stage 1: boom")));
  EXPECT_EQ(GetErrorInfo(*answer_)->metadata().at("worker"), "w1");
  EXPECT_EQ(Cancels(0), 1);
  EXPECT_EQ(Cancels(1), 1);
  EXPECT_FALSE(call_->wants_feeds());

  Failed(0, "a void message");
  EXPECT_FALSE(Done(0, false).released);
  EXPECT_TRUE(Done(1, false).released);

  EXPECT_EQ(num_answers_, 1);
  EXPECT_EQ(Cancels(0), 0);
}

TEST_F(EvalCallTest, CancelAnswersOnceAndIsSentOnce) {
  call_->Cancel(absl::CancelledError("gone"));
  call_->Cancel(absl::DeadlineExceededError("late"));

  EXPECT_THAT(*answer_, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(num_answers_, 1);
  EXPECT_EQ(Cancels(0), 1);
  Output(1, 0);
  Done(0);
  EXPECT_TRUE(Done(1).released);
  EXPECT_EQ(num_answers_, 1);
}

TEST_F(EvalCallTest, EndOfTheGenerationReleasesWithoutTheWorkers) {
  view_.Detach(1);
  const auto later = view_.Make(Membership::State::kWaiting);
  EXPECT_TRUE(call_->IsEndedBy(*later));

  const auto outcome =
      call_->EndGeneration(absl::UnavailableError("w1 was lost"));

  EXPECT_TRUE(outcome.released);
  EXPECT_THAT(*answer_, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(Cancels(0), 0);
  EXPECT_FALSE(call_->EndGeneration(absl::UnavailableError("again")).released);
  EXPECT_FALSE(Done(0).accepted);
}

TEST_F(EvalCallTest, WorkerThatIsDoneOrDoesNotTakePartIsNotHeard) {
  Done(0);
  EXPECT_FALSE(Done(0).accepted);
  EXPECT_FALSE(Failed(0, "late").accepted);
  EXPECT_FALSE(answer_.has_value());

  view_.Attach(1);  // another incarnation at the same rank
  EXPECT_FALSE(Done(1).accepted);
}

TEST_F(EvalCallTest, RepeatedOutputIsNotAccepted) {
  EXPECT_TRUE(Output(1, 0).accepted);
  EXPECT_FALSE(Output(1, 0).accepted);
  EXPECT_FALSE(answer_.has_value());
}

TEST_F(EvalCallTest, MissingResultsAreNoSuccess) {
  Output(1, 0);
  Done(0);

  EXPECT_TRUE(Done(1).released);

  EXPECT_THAT(*answer_, StatusIs(absl::StatusCode::kInternal,
                                 HasSubstr("output y are missing")));
}

TEST_F(EvalCallTest, IncompleteWorkIsNoSuccess) {
  Output(1, 0);
  Output(1, 1);
  Done(0, /*complete=*/false);

  EXPECT_TRUE(Done(1).released);

  EXPECT_THAT(*answer_, StatusIs(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace pipestage
