// What clients can do wrong, through the real service: code, reason, message;
// and the next good call is exact.

#include <chrono>

#include "base/error_info.h"
#include "base/grpc_status.h"
#include "base/status_matchers.h"
#include "coordinator/testing/test_cluster.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

class ErrorsTest : public ::testing::Test {
 protected:
  static TestCluster::Options MakeOptions() {
    TestCluster::Options options;
    TestModel scored;
    scored.name = "scored";
    scored.with_loss = true;
    TestModel idle;
    idle.name = "idle";
    options.models = {TestModel(), scored, idle};
    options.load_models = false;
    options.server = [](Server::Options& server) {
      server.max_message_bytes = 1 << 20;
    };
    return options;
  }

  ErrorsTest() {
    EXPECT_THAT(cluster_.LoadModel("digits"), IsOk());
    EXPECT_THAT(cluster_.LoadModel("scored"), IsOk());
  }

  ~ErrorsTest() override {
    const auto request = DigitsRequest(5, 2);
    const auto response = cluster_.Eval(request);
    EXPECT_THAT(response, IsOk());
    EXPECT_TRUE(response.ok() && IsExact(request, *response, 2));
  }

  void ExpectRefused(const v1::EvalRequest& request, absl::StatusCode code,
                     absl::string_view reason, const std::string& mentions) {
    const auto response = cluster_.Eval(request);

    EXPECT_THAT(response, StatusIs(code, HasSubstr(mentions)));
    EXPECT_EQ(GetReason(response.status()), reason);
  }

  TestCluster cluster_{MakeOptions()};
};

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST_F(ErrorsTest, ModelsThatAreNotServed) {
  auto request = DigitsRequest(2, 1);
  request.mutable_model()->set_name("nowhere");
  ExpectRefused(request, absl::StatusCode::kNotFound, reason::kModelNotFound,
                "nowhere");
  request.mutable_model()->set_name("digits");
  request.mutable_model()->set_version("9");
  ExpectRefused(request, absl::StatusCode::kNotFound, reason::kModelNotFound,
                "9");
  request.mutable_model()->set_name("idle");
  request.mutable_model()->clear_version();
  ExpectRefused(request, absl::StatusCode::kNotFound, reason::kModelNotLoaded,
                "idle");
  request.mutable_model()->set_name("../etc");
  ExpectRefused(request, kInvalid, reason::kInvalidInput, "../etc");
}

TEST_F(ErrorsTest, TensorsThatAreNotWhatTheContractSays) {
  auto request = DigitsRequest(2, 1);
  request.clear_inputs();
  ExpectRefused(request, kInvalid, reason::kInvalidInput, "x");
  request = DigitsRequest(2, 1);
  (*request.mutable_inputs())["z"] = Rows(2);
  ExpectRefused(request, kInvalid, reason::kInvalidInput, "z");
  request = DigitsRequest(2, 1);
  (*request.mutable_inputs())["x"] = Float64Tensor({2, 2}, {1, 2, 3, 4});
  ExpectRefused(request, kInvalid, reason::kShapeMismatch, "[2,2]");
  request = DigitsRequest(2, 1);
  request.mutable_model()->set_name("scored");
  ExpectRefused(request, kInvalid, reason::kInvalidInput, "t");
  (*request.mutable_targets())["t"] = Rows(3);
  ExpectRefused(request, kInvalid, reason::kShapeMismatch, "3");
  request = DigitsRequest(2, 1);
  (*request.mutable_inputs())["x"] = Float64Tensor({0, 1}, {});
  ExpectRefused(request, kInvalid, reason::kInvalidInput, "row");
}

TEST_F(ErrorsTest, MalformedTensors) {
  for (int i = 0; i < 5; ++i) {
    auto request = DigitsRequest(2, 1);
    v1::Tensor& x = (*request.mutable_inputs())["x"];
    if (i == 0) x.mutable_data()->pop_back();
    if (i == 1) x.set_shape(0, int64_t{1} << 40);
    if (i == 2) x.set_shape(0, -2);
    if (i == 3) x.clear_dtype();
    if (i == 4) x.set_shape(1, int64_t{1} << 62);
    ExpectRefused(request, kInvalid, reason::kMalformedTensor, "\"x\"");
  }
}

TEST_F(ErrorsTest, OptionsOutOfRange) {
  auto request = DigitsRequest(2, 0);
  ExpectRefused(request, kInvalid, reason::kInvalidInput, "num_microbatches");
  request.mutable_options()->set_microbatch_rows(-1);
  ExpectRefused(request, kInvalid, reason::kInvalidInput, "microbatch_rows");
  request = DigitsRequest(2, 1);
  request.mutable_options()->set_schedule("2F2B");
  ExpectRefused(request, kInvalid, reason::kInvalidInput, "1F1B");
  request = DigitsRequest(2, 1);
  request.mutable_options()->add_outputs("logits");
  ExpectRefused(request, kInvalid, reason::kInvalidInput, "logits");
  request = DigitsRequest(2, 1);
  request.mutable_options()->add_outputs("y");
  request.mutable_options()->set_return_outputs(false);
  ExpectRefused(request, kInvalid, reason::kInvalidInput, "return_outputs");
  request = DigitsRequest(2, 1);
  request.mutable_options()->set_return_row_losses(true);
  ExpectRefused(request, kInvalid, reason::kInvalidInput, "no loss");
}

TEST_F(ErrorsTest, ReplyOverTheLimitIsRefusedBeforeItIsComputed) {
  const int before = cluster_.worker(0).Count(v1::CoordinatorMessage::kRun);

  ExpectRefused(DigitsRequest(130'000, 4), absl::StatusCode::kResourceExhausted,
                reason::kMessageTooLarge, "StreamEval");

  EXPECT_EQ(cluster_.worker(0).Count(v1::CoordinatorMessage::kRun), before);
}

TEST_F(ErrorsTest, RequestOverTheLimitIsRefusedWithTheLimit) {
  const auto response = cluster_.Eval(DigitsRequest(200'000, 4));

  EXPECT_THAT(response, StatusIs(absl::StatusCode::kResourceExhausted,
                                 HasSubstr("1048576")));
}

TEST(ErrorsWithoutWorkersTest, MissingWorkersAreCounted) {
  TestCluster::Options options;
  options.num_workers = 3;
  options.start_workers = false;
  TestCluster cluster(options);
  cluster.StartWorker(1);
  ASSERT_TRUE(cluster.Await(
      [](const v1::Status& status) { return status.workers_size() == 1; }));

  const auto loaded = cluster.LoadModel("digits");

  EXPECT_THAT(loaded, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("lacks 1 of 2 workers: rank 0")));
  EXPECT_EQ(GetReason(loaded.status()), reason::kWorkersMissing);
}

}  // namespace
}  // namespace pipestage
