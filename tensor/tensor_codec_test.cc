#include "tensor/tensor_codec.h"

#include <memory>
#include <string>
#include <vector>

#include "base/error_info.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::Tensor Message(int dtype, const std::vector<int64_t>& shape,
                   std::string data) {
  v1::Tensor message;
  message.set_dtype(static_cast<v1::DType>(dtype));
  for (const int64_t size : shape) message.add_shape(size);
  message.set_data(std::move(data));
  return message;
}

absl::string_view Bytes(const HostTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()),
          tensor.data.size()};
}

TEST(TensorCodecTest, EveryDTypeSurvivesTheTrip) {
  for (int value = v1::DType_MIN + 1; value <= v1::DType_MAX; ++value) {
    const auto dtype = static_cast<DType>(value);
    const std::string bytes(6 * ElementSize(dtype), '\1');
    const HostTensor sent = {dtype, {2, 3}, Buffer::FromString(bytes)};

    PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor received,
                                   DecodeTensor("x", EncodeTensor(sent)));

    EXPECT_EQ(received.dtype, dtype);
    EXPECT_EQ(received.shape, sent.shape);
    EXPECT_EQ(Bytes(received), bytes);
  }
}

TEST(TensorCodecTest, ScalarsAndEmptyTensorsSurviveTheTrip) {
  const HostTensor scalar = {DType::kInt8, {}, Buffer::FromString("7")};
  const HostTensor empty = {DType::kFloat64, {3, 0}, Buffer()};

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor scalar_received,
                                 DecodeTensor("x", EncodeTensor(scalar)));
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor empty_received,
                                 DecodeTensor("x", EncodeTensor(empty)));

  EXPECT_EQ(Bytes(scalar_received), "7");
  EXPECT_EQ(scalar_received.rank(), 0);
  EXPECT_EQ(empty_received.shape, Shape({3, 0}));
}

TEST(TensorCodecTest, BorrowedTensorLiesInTheMessageAndKeepsItAlive) {
  auto message = std::make_shared<v1::Tensor>(Message(v1::UINT8, {3}, "abc"));
  const std::weak_ptr<v1::Tensor> alive = message;
  const void* where = message->data().data();

  absl::StatusOr<HostTensor> tensor = BorrowTensor("x", *message, message);
  message.reset();

  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->data.data(), where);
  EXPECT_EQ(Bytes(*tensor), "abc");
  tensor = absl::CancelledError();
  EXPECT_TRUE(alive.expired());
}

TEST(TensorCodecTest, MalformedTensorsAreRefusedByEveryReader) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const std::vector<std::pair<v1::Tensor, std::string>> cases = {
      {Message(v1::INT8, {-1}, ""), "[-1] has a negative dimension"},
      {Message(v1::INT8, {-1, -1}, "x"), "negative"},
      {Message(v1::INT8, {kHuge, 4}, ""), "2^63"},
      {Message(v1::FLOAT32, {kHuge}, ""), "2^63"},
      {Message(v1::INT8, {kHuge}, "x"), "has 1 bytes of data; int8 ["},
      {Message(0, {1}, "x"), "dtype is unspecified"},
      {Message(99, {1}, "x"), "dtype 99 is not known"},
      {Message(v1::FLOAT32, {2}, "1234567"),
       "has 7 bytes of data; float32 [2] takes 8"},
      {Message(v1::FLOAT32, {2}, "123456789"), "has 9 bytes"},
      {Message(v1::FLOAT32, {}, ""), "has 0 bytes"},
      {Message(v1::INT8, std::vector<int64_t>(9, 1), "x"), "9 dimensions"},
      {Message(v1::BOOL, {2}, "\1\2"), "neither 0 nor 1"},
  };
  for (const auto& [message, problem] : cases) {
    const auto is_refused =
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(StartsWith("input \"x\": "), HasSubstr(problem)));
    const absl::Status status = ValidateTensor("input \"x\"", message);
    EXPECT_THAT(status, is_refused);
    EXPECT_EQ(GetReason(status), "MALFORMED_TENSOR");
    EXPECT_THAT(DecodeTensor("input \"x\"", message), is_refused);
    EXPECT_THAT(BorrowTensor("input \"x\"", message, nullptr), is_refused);
  }
}

TEST(TensorCodecTest, SpecsAreCheckedLikeTensors) {
  const v1::TensorSpec good = EncodeSpec(DType::kFloat32, {2, 3});
  v1::TensorSpec negative = good;
  negative.add_shape(-3);
  v1::TensorSpec untyped = good;
  untyped.clear_dtype();

  EXPECT_THAT(ValidateSpec("output 0", good), IsOk());
  EXPECT_THAT(ValidateSpec("output 0", negative),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("output 0: shape [2,3,-3]")));
  EXPECT_EQ(GetReason(ValidateSpec("output 0", untyped)), "MALFORMED_TENSOR");
}

}  // namespace
}  // namespace pipestage
