#include "client/tensor_file.h"

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string PathOf(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/", name);
}

HostTensor Floats(const std::vector<float>& values, Shape shape) {
  return {DType::kFloat32, shape,
          Buffer::CopyOf(values.data(), values.size() * sizeof(float))};
}

void ExpectSame(const HostTensor& actual, const HostTensor& expected) {
  EXPECT_EQ(actual.dtype, expected.dtype);
  EXPECT_EQ(actual.shape, expected.shape);
  ASSERT_EQ(actual.data.size(), expected.data.size());
  EXPECT_EQ(std::memcmp(actual.data.data(), expected.data.data(),
                        expected.data.size()),
            0);
}

TEST(TensorFileTest, NpyComesBackAsItWasWritten) {
  const HostTensor tensor = Floats({1, 2, 3, 4, 5, 6}, {2, 3});
  const std::string path = PathOf("x.npy");

  ASSERT_THAT(WriteNpyFile(path, tensor), IsOk());

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(HostTensor read, ReadTensorFile(path, "any"));
  ExpectSame(read, tensor);
}

TEST(TensorFileTest, SafetensorsAreFoundByNameByColonOrAsTheOnlyOne) {
  const HostTensor a = Floats({1, 2}, {2});
  const HostTensor b = Floats({3}, {1, 1});
  const std::string both = PathOf("both.safetensors");
  const std::string one = PathOf("one.safetensors");
  ASSERT_THAT(WriteSafetensorsFile(both, {{"a", a}, {"b", b}}), IsOk());
  ASSERT_THAT(WriteSafetensorsFile(one, {{"b", b}}), IsOk());

  ExpectSame(*ReadTensorFile(both, "b"), b);
  ExpectSame(*ReadTensorFile(both + ":a", "b"), a);
  ExpectSame(*ReadTensorFile(one, "anything"), b);
}

TEST(TensorFileTest, AnAmbiguousOrMissingTensorIsAnsweredWithTheNames) {
  const std::string path = PathOf("ambiguous.safetensors");
  const HostTensor tensor = Floats({1}, {1});
  ASSERT_THAT(WriteSafetensorsFile(path, {{"a", tensor}, {"b", tensor}}),
              IsOk());

  EXPECT_THAT(
      ReadTensorFile(path, "tokens"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("none named \"tokens\""), HasSubstr("a, b"))));
  EXPECT_THAT(ReadTensorFile(path + ":c", "tokens"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no tensor \"c\"; it has a, b")));
}

TEST(TensorFileTest, AFileThatIsNotThereOrNotATensorIsNamed) {
  const std::string path = PathOf("broken.npy");
  std::ofstream(path) << "this is no array";

  EXPECT_THAT(ReadTensorFile(PathOf("missing.npy"), "x"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("missing.npy")));
  EXPECT_THAT(
      ReadTensorFile(path, "x"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("broken.npy")));
  EXPECT_THAT(ReadTensorFile("x.txt", "x"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("neither .npy nor .safetensors")));
}

TEST(TensorFileTest, WhatAFormatCannotHoldIsNotWritten) {
  const HostTensor half{DType::kBFloat16, {1}, Buffer::CopyOf("ab", 2)};

  EXPECT_THAT(
      WriteNpyFile(PathOf("half.npy"), half),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("half.npy")));
  EXPECT_THAT(WriteNpyFile(PathOf("x.safetensors"), half),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("must end with .npy")));
  EXPECT_THAT(WriteSafetensorsFile(PathOf("x.npy"), {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("must end with .safetensors")));
  EXPECT_THAT(WriteNpyFile(PathOf("no/such/folder/x.npy"), Floats({1}, {1})),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace pipestage
