// StreamEval through the real service: large calls, and violations of its
// order.

#include <algorithm>

#include "base/error_info.h"
#include "base/grpc_status.h"
#include "base/status_matchers.h"
#include "coordinator/testing/test_cluster.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class StreamTest : public ::testing::Test {
 protected:
  using Stream = grpc::ClientReaderWriter<v1::EvalChunk, v1::EvalEvent>;

  StreamTest() : StreamTest(TransferPace::Options()) {}
  explicit StreamTest(TransferPace::Options pace) : pace_(pace) {}

  TestCluster::Options MakeOptions() {
    TestCluster::Options options;
    TestModel model;
    model.with_loss = true;
    options.models = {model};
    options.server = [this](Server::Options& server) {
      server.max_message_bytes = 1 << 20;
      server.max_call_bytes = 100 << 20;
      server.pace = pace_;
    };
    return options;
  }

  static v1::EvalChunk HeaderOf(int rows, int microbatches) {
    v1::EvalChunk chunk;
    auto* header = chunk.mutable_header();
    header->mutable_model()->set_name("digits");
    header->mutable_options()->set_num_microbatches(microbatches);
    header->mutable_options()->set_return_outputs(true);
    for (const auto role : {v1::INPUT, v1::TARGET}) {
      auto* tensor = header->add_tensors();
      tensor->set_role(role);
      tensor->set_name(role == v1::INPUT ? "x" : "t");
      tensor->mutable_spec()->set_dtype(v1::FLOAT64);
      tensor->mutable_spec()->add_shape(rows);
      tensor->mutable_spec()->add_shape(1);
    }
    return chunk;
  }

  static void WriteTensor(Stream& stream, int index, const v1::Tensor& tensor,
                          size_t chunk_bytes = 64 << 10) {
    const std::string& data = tensor.data();
    for (size_t at = 0; at < data.size(); at += chunk_bytes) {
      v1::EvalChunk chunk;
      chunk.mutable_chunk()->set_tensor(index);
      chunk.mutable_chunk()->set_data(data.substr(at, chunk_bytes));
      if (!stream.Write(chunk)) return;
    }
  }

  struct Answer {
    absl::Status status;
    std::vector<v1::MicrobatchLoss> losses;
    v1::OutputHeader outputs;
    std::string data;
    v1::EvalResponse summary;
    int after_summary = 0;
  };

  static Answer ReadAll(Stream& stream) {
    Answer answer;
    v1::EvalEvent event;
    bool summed = false;
    while (stream.Read(&event)) {
      answer.after_summary += summed;
      if (event.has_microbatch()) answer.losses.push_back(event.microbatch());
      if (event.has_outputs()) answer.outputs = event.outputs();
      if (event.has_chunk()) answer.data += event.chunk().data();
      if (event.has_summary()) {
        answer.summary = event.summary();
        summed = true;
      }
    }
    answer.status = FromGrpcStatus(stream.Finish());
    return answer;
  }

  // Writes these messages and half-closes; what comes back.
  Answer Exchange(const std::vector<v1::EvalChunk>& chunks) {
    grpc::ClientContext context;
    const auto stream = cluster_.pipeline->StreamEval(&context);
    for (const auto& chunk : chunks) {
      if (!stream->Write(chunk)) break;
    }
    stream->WritesDone();
    return ReadAll(*stream);
  }

  void ExpectExact(int rows, int microbatches) {
    grpc::ClientContext context;
    const auto stream = cluster_.pipeline->StreamEval(&context);
    const v1::Tensor x = Rows(rows);
    stream->Write(HeaderOf(rows, microbatches));
    WriteTensor(*stream, 1, x);
    WriteTensor(*stream, 0, x);
    stream->WritesDone();

    const Answer answer = ReadAll(*stream);

    ASSERT_THAT(answer.status, IsOk());
    ASSERT_EQ(answer.data.size(), rows * sizeof(double));
    v1::Tensor y = x;
    y.set_data(answer.data);
    const std::vector<double> values = ValuesOf(y);
    for (int i = 0; i < rows; ++i) ASSERT_EQ(values[i], DigitsOf(i, 2));
    ASSERT_EQ(answer.outputs.tensors_size(), 1);
    EXPECT_EQ(answer.outputs.tensors(0).name(), "y");
    EXPECT_EQ(answer.outputs.tensors(0).spec().shape(0), rows);
    EXPECT_EQ(answer.losses.size(), std::min(rows, microbatches));
    EXPECT_EQ(answer.summary.loss().weight(), rows);
    EXPECT_TRUE(answer.summary.outputs().empty());
    EXPECT_EQ(answer.after_summary, 0);
  }

  bool AwaitNothingReserved() {
    return cluster_.Await([](const v1::Status& status) {
      return status.queue().bytes_admitted() == 0 &&
             status.queue().calls_running() == 0;
    });
  }

  const TransferPace::Options pace_;
  TestCluster cluster_{MakeOptions()};
};

TEST_F(StreamTest, SmallCallIsExact) { ExpectExact(5, 3); }

TEST_F(StreamTest, CallLargerThanAMessageIsExact) {
  ExpectExact(400'000, 16);  // 3.2 MB each way; messages of at most 1 MiB
}

TEST_F(StreamTest, OutputOfOneMicrobatchMustFitAMessage) {
  grpc::ClientContext context;
  const auto stream = cluster_.pipeline->StreamEval(&context);
  const v1::Tensor x = Rows(400'000);
  stream->Write(HeaderOf(400'000, 2));
  WriteTensor(*stream, 0, x);
  WriteTensor(*stream, 1, x);
  stream->WritesDone();

  EXPECT_THAT(ReadAll(*stream).status,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("more microbatches")));
}

TEST_F(StreamTest, ViolationsOfTheOrderAreRefused) {
  v1::EvalChunk chunk;
  chunk.mutable_chunk()->set_tensor(0);
  chunk.mutable_chunk()->set_data("12345678");
  v1::EvalChunk beyond = chunk;
  beyond.mutable_chunk()->set_tensor(2);
  const v1::EvalChunk header = HeaderOf(2, 1);

  EXPECT_THAT(Exchange({}).status, StatusIs(kInvalid, HasSubstr("header")));
  EXPECT_THAT(Exchange({chunk}).status,
              StatusIs(kInvalid, HasSubstr("header")));
  EXPECT_THAT(Exchange({header, header}).status,
              StatusIs(kInvalid, HasSubstr("second header")));
  EXPECT_THAT(Exchange({header, v1::EvalChunk()}).status,
              StatusIs(kInvalid, HasSubstr("neither")));
  EXPECT_THAT(Exchange({header, beyond}).status,
              StatusIs(kInvalid, HasSubstr("tensor 2")));
  EXPECT_THAT(Exchange({header, chunk}).status,
              StatusIs(kInvalid, HasSubstr("has 8 of 16 bytes")));
  EXPECT_THAT(Exchange({header, chunk, chunk, chunk}).status,
              StatusIs(kInvalid, HasSubstr("8 bytes after 16 of 16")));
  ExpectExact(3, 2);
}

TEST_F(StreamTest, DeclarationsBeyondTheLimitAreRefusedAtOnce) {
  const Answer answer = Exchange({HeaderOf(10'000'000, 4)});

  EXPECT_THAT(answer.status, StatusIs(absl::StatusCode::kResourceExhausted,
                                      HasSubstr("104857600")));
  EXPECT_EQ(GetReason(answer.status), reason::kMessageTooLarge);
  EXPECT_TRUE(cluster_.Await([](const v1::Status& status) {
    return status.queue().bytes_admitted() == 0;
  }));
}

TEST_F(StreamTest, ClientThatGoesWhileItUploadsLeavesNothing) {
  {
    grpc::ClientContext context;
    const auto stream = cluster_.pipeline->StreamEval(&context);
    stream->Write(HeaderOf(100'000, 4));
    WriteTensor(*stream, 0, Rows(50'000));
    ASSERT_TRUE(cluster_.Await([](const v1::Status& status) {
      return status.queue().bytes_admitted() > 0;
    }));
    context.TryCancel();
    EXPECT_THAT(FromGrpcStatus(stream->Finish()),
                StatusIs(absl::StatusCode::kCancelled));
  }

  EXPECT_TRUE(cluster_.Await([](const v1::Status& status) {
    return status.queue().bytes_admitted() == 0;
  }));
  ExpectExact(3, 2);
}

class ImpatientStreamTest : public StreamTest {
 protected:
  ImpatientStreamTest() : StreamTest({.grace = absl::Seconds(1)}) {}
};

TEST_F(ImpatientStreamTest, AClientThatSendsNothingLosesWhatItReserved) {
  for (const bool with_header : {true, false}) {
    grpc::ClientContext context;
    const auto stream = cluster_.pipeline->StreamEval(&context);
    if (with_header) stream->Write(HeaderOf(100'000, 4));

    const Answer answer = ReadAll(*stream);

    EXPECT_THAT(answer.status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                        HasSubstr("are not all here after 1")));
    EXPECT_TRUE(AwaitNothingReserved());
  }
  ExpectExact(3, 2);
}

TEST_F(ImpatientStreamTest, AClientThatDoesNotReadLosesItsAnswer) {
  constexpr int kRows = 4'000'000;  // 32 MB: more than a connection holds
  grpc::ClientContext context;
  const auto stream = cluster_.pipeline->StreamEval(&context);
  stream->Write(HeaderOf(kRows, 100));
  const v1::Tensor x = Rows(kRows);
  WriteTensor(*stream, 1, x);
  WriteTensor(*stream, 0, x);

  ASSERT_TRUE(cluster_.Await(
      [](const v1::Status& status) { return status.calls_succeeded() == 1; }));
  EXPECT_TRUE(AwaitNothingReserved());
  ExpectExact(3, 2);

  EXPECT_THAT(ReadAll(*stream).status, StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace pipestage
