#include "client/pipeline_client.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error_info.h"
#include "base/status_matchers.h"
#include "client/testing/fake_coordinator.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

HostTensor Rows(int64_t rows, int64_t width) {
  Buffer data = Buffer::Allocate(rows * width);
  for (size_t i = 0; i < data.size(); ++i) {
    data.mutable_data()[i] = static_cast<std::byte>(i * 7);
  }
  return {DType::kUint8, {rows, width}, std::move(data)};
}

EvalInput InputFor(const std::string& model, HostTensor x) {
  EvalInput input;
  input.model.set_name(model);
  input.inputs["x"] = std::move(x);
  return input;
}

class PipelineClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<PipelineClient> Connect(
      PipelineClient::Options options = {}) {
    options.address = coordinator_.address();
    return *PipelineClient::Create(std::move(options));
  }

  static void ExpectSame(const HostTensor& actual, const HostTensor& expected) {
    EXPECT_EQ(actual.dtype, expected.dtype);
    EXPECT_EQ(actual.shape, expected.shape);
    ASSERT_EQ(actual.data.size(), expected.data.size());
    EXPECT_EQ(std::memcmp(actual.data.data(), expected.data.data(),
                          expected.data.size()),
              0);
  }

  FakeCoordinator coordinator_;
};

TEST_F(PipelineClientTest, ASmallCallWithoutOutputsIsOneMessage) {
  EvalInput input = InputFor("echo", Rows(5, 3));
  input.options.set_num_microbatches(2);

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(EvalResult result, Connect()->Eval(input));

  EXPECT_EQ(coordinator_.unary_calls(), 1);
  EXPECT_EQ(coordinator_.streamed_calls(), 0);
  EXPECT_EQ(result.summary.loss().weight(), 5);
  EXPECT_EQ(result.summary.microbatches_size(), 2);
  EXPECT_TRUE(result.outputs.empty());
}

TEST_F(PipelineClientTest, OutputsComeInChunks) {
  const HostTensor x = Rows(700, 1000);
  EvalInput input = InputFor("echo", x);
  input.options.set_return_outputs(true);

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(EvalResult result, Connect()->Eval(input));

  EXPECT_EQ(coordinator_.streamed_calls(), 1);
  ExpectSame(result.outputs["y"], x);
}

TEST_F(PipelineClientTest, OutputsOfAUnaryCallKeepTheirBytes) {
  const HostTensor x = Rows(4, 3);
  EvalInput input = InputFor("echo", x);
  input.options.set_return_outputs(true);

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      EvalResult result,
      Connect()->Eval(input, {}, PipelineClient::Transport::kUnary));

  EXPECT_EQ(coordinator_.unary_calls(), 1);
  ExpectSame(result.outputs["y"], x);
}

TEST_F(PipelineClientTest, LargeInputsGoInChunksOfAMebibyte) {
  const EvalInput input = InputFor("echo", Rows(10, 1 << 20));

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(EvalResult result, Connect()->Eval(input));

  EXPECT_EQ(coordinator_.streamed_calls(), 1);
  EXPECT_EQ(coordinator_.largest_chunk(), 1 << 20);
  EXPECT_EQ(result.summary.loss().weight(), 10);
}

TEST_F(PipelineClientTest, MicrobatchesAreReportedInOrder) {
  EvalInput input = InputFor("echo", Rows(7, 1));
  input.options.set_num_microbatches(3);
  std::vector<int64_t> rows;

  ASSERT_THAT(Connect()->Eval(input,
                              [&](const v1::MicrobatchLoss& loss) {
                                rows.push_back(loss.rows());
                              }),
              IsOk());

  EXPECT_EQ(rows, std::vector<int64_t>({3, 2, 2}));
}

TEST_F(PipelineClientTest, AnAnswerBeforeAllInputIsReadBlocksNobody) {
  const HostTensor x = Rows(16, 1 << 20);
  EvalInput input = InputFor("chatty", x);
  input.options.set_return_outputs(true);

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(EvalResult result, Connect()->Eval(input));

  EXPECT_EQ(result.outputs["y"].data.size(), x.data.size());
}

TEST_F(PipelineClientTest, AFailureInTheMiddleOfTheInputKeepsItsReason) {
  const absl::Status status =
      Connect()->Eval(InputFor("hasty", Rows(32, 1 << 20))).status();

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted,
                               HasSubstr("stage 0 failed")));
  EXPECT_EQ(GetReason(status), reason::kStageFailed);
}

TEST_F(PipelineClientTest, ErrorsOfTheServerKeepTheirReason) {
  for (auto transport : {PipelineClient::Transport::kUnary,
                         PipelineClient::Transport::kStream}) {
    const absl::Status status =
        Connect()->Eval(InputFor("nobody", Rows(1, 1)), {}, transport).status();

    EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound,
                                 HasSubstr("no model \"nobody\"")));
    EXPECT_EQ(GetReason(status), reason::kModelNotFound);
  }
}

TEST_F(PipelineClientTest, ACallEndsAtItsDeadline) {
  PipelineClient::Options options;
  options.timeout = absl::Milliseconds(50);
  for (auto transport : {PipelineClient::Transport::kUnary,
                         PipelineClient::Transport::kStream}) {
    EXPECT_THAT(
        Connect(options)->Eval(InputFor("stall", Rows(1, 1)), {}, transport),
        StatusIs(absl::StatusCode::kDeadlineExceeded));
  }
}

TEST_F(PipelineClientTest, OutputsOverTheLimitEndTheCall) {
  PipelineClient::Options options;
  options.stream.max_output_bytes = 1000;
  EvalInput input = InputFor("echo", Rows(2, 1000));
  input.options.set_return_outputs(true);

  EXPECT_THAT(Connect(options)->Eval(input),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("larger than 1000 bytes")));
}

TEST_F(PipelineClientTest, AllPagesOfModelsAreListed) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto models, Connect()->ListModels());

  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].version(), "2");
  EXPECT_EQ(models[1].version(), "1");
}

TEST_F(PipelineClientTest, ModelsAreLoadedAndUnloaded) {
  const auto client = Connect();
  v1::ModelRef echo;
  echo.set_name("echo");
  echo.set_version("1");

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(v1::Model model, client->LoadModel(echo));
  EXPECT_EQ(model.state(), v1::SERVING);
  EXPECT_EQ(coordinator_.loaded_models(), 1);
  EXPECT_THAT(client->GetModel(echo), IsOk());

  EXPECT_THAT(client->UnloadModel(echo), IsOk());
  EXPECT_EQ(coordinator_.loaded_models(), 0);
  EXPECT_THAT(client->UnloadModel(echo), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(PipelineClientTest, StatusIsTheServers) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(v1::Status status, Connect()->GetStatus());

  EXPECT_EQ(status.state(), v1::READY);
}

TEST(PipelineClientWithoutServerTest, NobodyAnsweringIsUnavailable) {
  std::string address;
  {
    FakeCoordinator gone;
    address = gone.address();
  }
  const auto client = *PipelineClient::Create({.address = address});

  EXPECT_THAT(client->GetStatus(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(PipelineClientWithoutServerTest, OptionsThatCannotWorkAreRefused) {
  EXPECT_THAT(PipelineClient::Create({.address = ""}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(PipelineClient::Create({.max_message_bytes = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace pipestage
