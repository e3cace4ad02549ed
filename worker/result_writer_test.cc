#include "worker/result_writer.h"

#include "base/error_info.h"
#include "base/fake_clock.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/testing/toy_pipeline.h"
#include "worker/testing/toy_stage.h"

namespace pipestage {
namespace {

class KeepingOutbox : public Outbox {
 public:
  void Send(v1::WorkerMessage message) override {
    messages.push_back(std::move(message));
  }
  std::vector<v1::WorkerMessage> messages;
};

class ResultWriterTest : public ::testing::Test {
 protected:
  // Pieces of 32 bytes unless said: four doubles.
  std::unique_ptr<ResultWriter> Make(const ToyPipeline& pipeline,
                                     int num_microbatches,
                                     int64_t piece_bytes = 32) {
    auto model = std::make_shared<LoadedModel>();
    model->contract = std::make_shared<PackageContract>(
        *ParseContract(ToyPipelineJson(pipeline)));
    call_.model = model;
    call_.plan = std::make_shared<RankPlan>(MakeToyPlans(
        1, static_cast<int>(pipeline.stages.size()), num_microbatches)[0]);
    call_.inbox =
        std::make_shared<CallInbox>(CallId(9), FeedWindow::Unbounded());
    ResultWriter::Options options;
    options.piece_bytes = piece_bytes;
    return std::make_unique<ResultWriter>(options, call_, &outbox_, &loader_,
                                          &clock_);
  }

  static StageTensor Tensor(std::vector<double> elements) {
    return MakeToyTensor(DType::kFloat64,
                         {static_cast<int64_t>(elements.size()), 1}, elements);
  }

  static MicrobatchLossValue Loss(double sum) {
    MicrobatchLossValue value;
    value.total.sum.Add(sum);
    value.total.weight = 2;
    return value;
  }

  const v1::CallDone& done() const {
    return outbox_.messages.back().call_done();
  }

  PreparedCall call_;
  KeepingOutbox outbox_;
  ToyStageLoader loader_;
  FakeClock clock_;
};

TEST_F(ResultWriterTest, SmallResultsRideOnCallDone) {
  auto writer = Make(DigitPipeline(1), 2, /*piece_bytes=*/1 << 10);

  for (int m : {0, 1}) {
    ASSERT_THAT(writer->AddLoss(MicrobatchIndex(m), Loss(m + 1)), IsOk());
    ASSERT_THAT(writer->AddOutput(MicrobatchIndex(m), 0, Tensor({1.0 * m})),
                IsOk());
  }
  writer->Finish({.complete = true, .busy = absl::Seconds(2)});

  ASSERT_EQ(outbox_.messages.size(), 1);
  EXPECT_EQ(done().call_id(), 9);
  EXPECT_EQ(done().busy_s(), 2);
  EXPECT_EQ(done().losses().weights_size(), 2);
  EXPECT_EQ(done().losses().partials(1), 2);
  ASSERT_EQ(done().outputs_size(), 1);
  EXPECT_EQ(done().outputs(0).num_microbatches(), 2);
  EXPECT_EQ(done().outputs(0).data().size(), 16);
  EXPECT_EQ(done().outputs(0).parts_size(), 0);
}

TEST_F(ResultWriterTest, LargeOutputsGoAheadInPieces) {
  auto writer = Make(DigitPipeline(1), 5);

  for (int m = 0; m < 5; ++m) {
    ASSERT_THAT(writer->AddOutput(MicrobatchIndex(m), 0, Tensor({1.0, 2.0})),
                IsOk());
  }
  writer->Finish({.complete = true});

  ASSERT_EQ(outbox_.messages.size(), 3);
  EXPECT_EQ(outbox_.messages[1].output().first_microbatch(), 2);
  EXPECT_EQ(outbox_.messages[1].output().num_microbatches(), 2);
  EXPECT_EQ(outbox_.messages[1].output().data().size(), 32);
  EXPECT_EQ(done().outputs(0).first_microbatch(), 4);
}

TEST_F(ResultWriterTest, MicrobatchLargerThanAPieceIsAMessage) {
  auto writer = Make(DigitPipeline(1), 2);

  ASSERT_THAT(
      writer->AddOutput(MicrobatchIndex(0), 0, Tensor({1, 2, 3, 4, 5, 6})),
      IsOk());

  ASSERT_EQ(outbox_.messages.size(), 1);
  EXPECT_EQ(outbox_.messages[0].output().data().size(), 48);
}

TEST_F(ResultWriterTest, MicrobatchLargerThanAMessageIsRefusedByName) {
  ResultWriter::Options options;
  options.max_part_bytes = 40;
  Make(DigitPipeline(1), 2);
  ResultWriter writer(options, call_, &outbox_, &loader_, &clock_);

  EXPECT_THAT(
      writer.AddOutput(MicrobatchIndex(0), 0, Tensor({1, 2, 3, 4, 5, 6})),
      StatusIs(absl::StatusCode::kResourceExhausted,
               ::testing::HasSubstr("of one microbatch has 48 bytes; a message "
                                    "holds 40; use more microbatches")));
  EXPECT_THAT(writer.AddOutput(MicrobatchIndex(0), 0, Tensor({1, 2, 3, 4, 5})),
              IsOk());
}

TEST_F(ResultWriterTest, MicrobatchesOutOfOrderAreNotMixedUp) {
  auto writer = Make(DigitPipeline(1), 3, /*piece_bytes=*/1 << 10);

  for (int m : {1, 0, 2}) {
    ASSERT_THAT(writer->AddLoss(MicrobatchIndex(m), Loss(m)), IsOk());
    ASSERT_THAT(writer->AddOutput(MicrobatchIndex(m), 0, Tensor({1.0 * m})),
                IsOk());
  }
  writer->Finish({.complete = true});

  std::vector<int> outputs;
  std::vector<int> losses;
  for (const auto& message : outbox_.messages) {
    if (message.has_output()) {
      outputs.push_back(message.output().first_microbatch());
    }
    if (message.has_losses()) {
      losses.push_back(message.losses().first_microbatch());
    }
  }
  EXPECT_EQ(outputs, (std::vector<int>{1, 0}));
  EXPECT_EQ(losses, (std::vector<int>{1, 0}));
  EXPECT_EQ(done().outputs(0).first_microbatch(), 2);
}

TEST_F(ResultWriterTest, ProgressIsReportedNoMoreOftenThanAsked) {
  auto writer = Make(DigitPipeline(1), 50, /*piece_bytes=*/1 << 20);
  call_.wishes.report_progress = true;

  for (int m = 0; m < 50; ++m) {
    clock_.Advance(absl::Milliseconds(1));
    ASSERT_THAT(writer->AddLoss(MicrobatchIndex(m), Loss(1)), IsOk());
  }
  writer->Finish({.complete = true});

  ASSERT_EQ(outbox_.messages.size(), 3);
  EXPECT_EQ(outbox_.messages[0].losses().weights_size(), 20);
  EXPECT_EQ(outbox_.messages[1].losses().first_microbatch(), 20);
  EXPECT_EQ(done().losses().weights_size(), 10);
}

TEST_F(ResultWriterTest, DataDependentOutputsSayTheirShapes) {
  ToyPipeline pipeline;
  pipeline.stages = {{"odd_rows"}};
  pipeline.loss = "";
  auto writer = Make(pipeline, 2);

  ASSERT_THAT(writer->AddOutput(MicrobatchIndex(0), 0, Tensor({1, 3})), IsOk());
  ASSERT_THAT(writer->AddOutput(MicrobatchIndex(1), 0, Tensor({})), IsOk());
  writer->Finish({.complete = true});

  ASSERT_EQ(done().outputs(0).parts_size(), 2);
  EXPECT_EQ(done().outputs(0).parts(0).shape(0), 2);
  EXPECT_EQ(done().outputs(0).parts(1).shape(0), 0);
}

TEST_F(ResultWriterTest, FailureIsSentAtOnceAndResultsAreNot) {
  auto writer = Make(DigitPipeline(1), 2);
  ASSERT_THAT(writer->AddOutput(MicrobatchIndex(0), 0, Tensor({1})), IsOk());

  writer->Fail(absl::AbortedError("boom"));
  ASSERT_EQ(outbox_.messages.size(), 1);
  writer->Finish({.complete = false});

  EXPECT_THAT(FromRpcStatus(outbox_.messages[0].call_failed().error()),
              StatusIs(absl::StatusCode::kAborted, "boom"));
  EXPECT_FALSE(done().complete());
  EXPECT_EQ(done().outputs_size(), 0);
}

}  // namespace
}  // namespace pipestage
