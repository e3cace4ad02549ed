#include "base/error_info.h"

#include "base/grpc_status.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(ErrorInfoTest, ReasonAndMetadataSurviveTheTripThroughGrpc) {
  const absl::Status sent =
      WithReason(absl::AbortedError("stage 2 failed"), reason::kStageFailed,
                 {{"stage", "2"}, {"microbatch", "5"}});

  const absl::Status received = FromGrpcStatus(ToGrpcStatus(sent));

  EXPECT_THAT(received,
              StatusIs(absl::StatusCode::kAborted, Eq("stage 2 failed")));
  const auto info = GetErrorInfo(received);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason(), "STAGE_FAILED");
  EXPECT_EQ(info->domain(), "pipestage");
  EXPECT_THAT(info->metadata(), UnorderedElementsAre(Pair("stage", "2"),
                                                     Pair("microbatch", "5")));
}

TEST(ErrorInfoTest, OkStaysOk) {
  EXPECT_THAT(WithReason(absl::OkStatus(), reason::kStageFailed), IsOk());
  EXPECT_THAT(FromGrpcStatus(ToGrpcStatus(absl::OkStatus())), IsOk());
  EXPECT_THAT(FromRpcStatus(v1::RpcStatus()), IsOk());
}

TEST(ErrorInfoTest, StatusOfAnotherServerWithoutDetailsIsRead) {
  const absl::Status status = FromGrpcStatus(
      grpc::Status(grpc::StatusCode::UNAVAILABLE, "no connection", "garbage"));

  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kUnavailable, Eq("no connection")));
  EXPECT_EQ(GetReason(status), "");
}

TEST(ErrorInfoTest, VeryLongMessageIsCutSoThatItsTrailerIsNotDropped) {
  const absl::Status status = absl::InternalError(std::string(100'000, 'x'));

  EXPECT_LT(ToGrpcStatus(status).error_message().size(), 4096);
  EXPECT_THAT(ToGrpcStatus(status).error_message(), HasSubstr("xxx"));
}

TEST(ErrorInfoTest, AMessageThatIsNoAsciiIsCutToWhatItsTrailerMayHold) {
  std::string message;
  for (int i = 0; i < 2000; ++i) message += "\u20AC";  // %E2%82%AC
  const absl::Status status = WithReason(
      absl::InternalError(message), reason::kStageFailed, {{"stage", message}});

  const grpc::Status sent = ToGrpcStatus(status);

  EXPECT_EQ(sent.error_message().size() % 3, 1);  // whole characters and " ..."
  EXPECT_LT(
      3 * sent.error_message().size() + 4 * sent.error_details().size() / 3,
      8000);
}

TEST(ErrorInfoTest, UnknownCodeFromAPeerBecomesUnknown) {
  v1::RpcStatus rpc_status;
  rpc_status.set_code(99);

  EXPECT_THAT(FromRpcStatus(rpc_status), StatusIs(absl::StatusCode::kUnknown));
}

// A message that does not parse would end the link it travels on.
TEST(ErrorInfoTest, TextThatIsNotUtf8StillTravels) {
  std::string message(1, 'x');
  for (int i = 0; i < 2000; ++i) message += "é";  // cut within one
  for (const std::string& text : {message, std::string("stage \xFF")}) {
    const std::string sent =
        ToRpcStatus(WithReason(absl::AbortedError(text), reason::kStageFailed,
                               {{"file", text}}))
            .SerializeAsString();

    v1::RpcStatus received;

    ASSERT_TRUE(received.ParseFromString(sent));
    EXPECT_TRUE(GetErrorInfo(FromRpcStatus(received)).has_value());
  }
}

}  // namespace
}  // namespace pipestage
