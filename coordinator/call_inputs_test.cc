#include "coordinator/call_inputs.h"

#include "base/error_info.h"
#include "base/status_matchers.h"
#include "coordinator/testing/test_models.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

v1::EvalHeader HeaderOf(std::vector<std::pair<std::string, int64_t>> tensors) {
  v1::EvalHeader header;
  for (const auto& [name, rows] : tensors) {
    auto* announcement = header.add_tensors();
    announcement->set_role(v1::INPUT);
    announcement->set_name(name);
    announcement->mutable_spec()->set_dtype(v1::UINT8);
    announcement->mutable_spec()->add_shape(rows);
  }
  return header;
}

v1::TensorChunk ChunkOf(int tensor, const std::string& data) {
  v1::TensorChunk chunk;
  chunk.set_tensor(tensor);
  chunk.set_data(data);
  return chunk;
}

TEST(BorrowInputsTest, TensorsShareTheRequestsBytes) {
  auto request = std::make_shared<v1::EvalRequest>();
  (*request->mutable_inputs())["x"] = Rows(3);
  (*request->mutable_targets())["t"] = Rows(2);

  const auto inputs = BorrowInputs(*request, request);

  ASSERT_THAT(inputs, IsOk());
  const HostTensor& x = inputs->inputs.at("x");
  EXPECT_EQ(reinterpret_cast<const char*>(x.data.data()),
            request->inputs().at("x").data().data());
  EXPECT_EQ(inputs->targets.count("t"), 1);
  EXPECT_EQ(inputs->size_bytes(), 5 * 8);
}

TEST(BorrowInputsTest, MalformedTensorIsNamed) {
  auto request = std::make_shared<v1::EvalRequest>();
  (*request->mutable_inputs())["x"] = Rows(3);
  (*request->mutable_inputs())["x"].mutable_data()->pop_back();

  const auto inputs = BorrowInputs(*request, request);

  EXPECT_THAT(inputs, StatusIs(kInvalid, HasSubstr("input \"x\"")));
  EXPECT_EQ(GetReason(inputs.status()), reason::kMalformedTensor);
}

TEST(StreamedInputsTest, ChunksOfSeveralTensorsMayAlternate) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      auto inputs, StreamedInputs::Begin(HeaderOf({{"a", 4}, {"b", 2}}), {}));
  EXPECT_EQ(inputs.size_bytes(), 6);

  ASSERT_THAT(inputs.Add(ChunkOf(0, "ab")), IsOk());
  ASSERT_THAT(inputs.Add(ChunkOf(1, "xy")), IsOk());
  EXPECT_FALSE(inputs.complete());
  ASSERT_THAT(inputs.Add(ChunkOf(0, "cd")), IsOk());

  ASSERT_TRUE(inputs.complete());
  const CallInputs taken = inputs.Take();
  const Buffer& a = taken.inputs.at("a").data;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(a.data()), a.size()),
            "abcd");
}

TEST(StreamedInputsTest, EmptyTensorsNeedNoChunk) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      auto inputs, StreamedInputs::Begin(HeaderOf({{"a", 0}}), {}));

  EXPECT_TRUE(inputs.complete());
  EXPECT_THAT(inputs.Add(ChunkOf(0, "x")), StatusIs(kInvalid));
}

TEST(StreamedInputsTest, SurplusBytesAreRefused) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      auto inputs, StreamedInputs::Begin(HeaderOf({{"a", 4}}), {}));
  ASSERT_THAT(inputs.Add(ChunkOf(0, "abc")), IsOk());

  EXPECT_THAT(inputs.Add(ChunkOf(0, "de")),
              StatusIs(kInvalid, HasSubstr("2 bytes after 3 of 4")));
  EXPECT_THAT(inputs.Add(ChunkOf(1, "a")), StatusIs(kInvalid));
  EXPECT_THAT(inputs.Add(ChunkOf(-1, "a")), StatusIs(kInvalid));
  EXPECT_THAT(inputs.Add(ChunkOf(0, "")), StatusIs(kInvalid));
}

TEST(StreamedInputsTest, MissingBytesAreNamed) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      auto inputs, StreamedInputs::Begin(HeaderOf({{"a", 4}}), {}));
  ASSERT_THAT(inputs.Add(ChunkOf(0, "abc")), IsOk());

  EXPECT_THAT(inputs.CheckComplete(),
              StatusIs(kInvalid, HasSubstr("input \"a\" has 3 of 4 bytes")));
}

TEST(StreamedInputsTest, BadAnnouncementsAreRefused) {
  auto output = HeaderOf({{"a", 1}});
  output.mutable_tensors(0)->set_role(v1::OUTPUT);
  auto negative = HeaderOf({{"a", -1}});
  auto untyped = HeaderOf({{"a", 1}});
  untyped.mutable_tensors(0)->mutable_spec()->clear_dtype();

  EXPECT_THAT(StreamedInputs::Begin(output, {}), StatusIs(kInvalid));
  EXPECT_THAT(StreamedInputs::Begin(negative, {}), StatusIs(kInvalid));
  EXPECT_THAT(StreamedInputs::Begin(untyped, {}), StatusIs(kInvalid));
  EXPECT_THAT(StreamedInputs::Begin(HeaderOf({{"", 1}}), {}),
              StatusIs(kInvalid));
  EXPECT_THAT(StreamedInputs::Begin(HeaderOf({{"a", 1}, {"a", 1}}), {}),
              StatusIs(kInvalid, HasSubstr("twice")));
  EXPECT_THAT(
      StreamedInputs::Begin(HeaderOf({{"a", 1}, {"b", 1}}), {.max_tensors = 1}),
      StatusIs(kInvalid, HasSubstr("limit is 1")));
}

TEST(StreamedInputsTest, MoreBytesThanTheLimitAreRefusedBeforeTheyCome) {
  const auto inputs = StreamedInputs::Begin(
      HeaderOf({{"a", int64_t{1} << 40}, {"b", int64_t{1} << 62}}),
      {.max_bytes = int64_t{1} << 41});

  EXPECT_THAT(inputs, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("\"b\"")));
  EXPECT_EQ(GetReason(inputs.status()), reason::kMessageTooLarge);
}

}  // namespace
}  // namespace pipestage
