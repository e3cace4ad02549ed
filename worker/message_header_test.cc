#include "worker/message_header.h"

#include <array>

#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/host_tensor.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

MessageHeader Example() {
  MessageHeader header;
  header.generation = Generation(3);
  header.call = CallId(41);
  header.stage = StageIndex(2);
  header.microbatch = MicrobatchIndex(7);
  header.payload_bytes = 4096;
  header.digest = 0xdeadbeef12345678;
  return header;
}

using Bytes = std::array<std::byte, kMessageHeaderSize>;

TEST(MessageHeaderTest, RoundTripKeepsEveryField) {
  MessageHeader header = Example();
  header.is_void = true;
  header.checksum = 99;
  Bytes bytes;

  EncodeHeader(header, bytes.data());
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(MessageHeader got, DecodeHeader(bytes.data()));

  EXPECT_THAT(CheckHeader(got, header), IsOk());
  EXPECT_TRUE(got.is_void);
  EXPECT_EQ(got.checksum, 99u);
}

TEST(MessageHeaderTest, ForeignBytesAreRefused) {
  Bytes bytes = {};

  EXPECT_THAT(DecodeHeader(bytes.data()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("begins with")));
}

TEST(MessageHeaderTest, UnknownFlagIsRefused) {
  Bytes bytes;
  EncodeHeader(Example(), bytes.data());
  bytes[4] |= std::byte{0x80};

  EXPECT_THAT(DecodeHeader(bytes.data()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("flags 80")));
}

TEST(MessageHeaderTest, MismatchNamesFieldAndBothValues) {
  MessageHeader got = Example();
  got.microbatch = MicrobatchIndex(8);

  EXPECT_THAT(
      CheckHeader(got, Example()),
      StatusIs(absl::StatusCode::kInternal,
               AllOf(HasSubstr("microbatch is 8"), HasSubstr("plan says 7"))));
}

TEST(MessageHeaderTest, EveryFieldIsCompared) {
  const auto differs = [](auto change) {
    MessageHeader got = Example();
    change(got);
    return CheckHeader(got, Example()).code() == absl::StatusCode::kInternal;
  };

  EXPECT_TRUE(differs([](auto& h) { h.generation = Generation(4); }));
  EXPECT_TRUE(differs([](auto& h) { h.call = CallId(42); }));
  EXPECT_TRUE(differs([](auto& h) { h.stage = StageIndex(1); }));
  EXPECT_TRUE(differs([](auto& h) { h.payload_bytes = 4097; }));
  EXPECT_TRUE(differs([](auto& h) { h.digest += 1; }));
}

TEST(MessageHeaderTest, DigestTellsDtypesShapesAndTheirOrderApart) {
  const uint64_t a = SpecDigest(0, DType::kFloat32, {8, 16});

  EXPECT_EQ(a, SpecDigest(0, DType::kFloat32, {8, 16}));
  EXPECT_NE(a, SpecDigest(0, DType::kInt32, {8, 16}));
  EXPECT_NE(a, SpecDigest(0, DType::kFloat32, {16, 8}));
  EXPECT_NE(a, SpecDigest(0, DType::kFloat32, {8, 16, 1}));
  EXPECT_NE(
      SpecDigest(a, DType::kBool, {1}),
      SpecDigest(SpecDigest(0, DType::kBool, {1}), DType::kFloat32, {8, 16}));
}

}  // namespace
}  // namespace pipestage
