#include "tensor/safetensors.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// A file of this header and so many bytes 0, 1, 2, ...
Buffer File(absl::string_view header, size_t data_bytes) {
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i) file[i] = uint64_t{header.size()} >> (8 * i);
  absl::StrAppend(&file, header);
  for (size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
  return Buffer::FromString(std::move(file));
}

// {"x": ...} with these parts.
std::string OneEntry(absl::string_view dtype, absl::string_view shape,
                     absl::string_view offsets) {
  return absl::StrCat(R"({"x":{"dtype":)", dtype, R"(,"shape":)", shape,
                      R"(,"data_offsets":)", offsets, "}}");
}

std::string Bytes(const HostTensor& tensor) {
  return std::string(reinterpret_cast<const char*>(tensor.data.data()),
                     tensor.data.size());
}

// Written by the Python library, version 0.6:
//   save({"w": tensor([[1.5, -2.]], dtype=bfloat16), "a": tensor([1, -2]),
//         "flag": tensor([True, False, True]), "s": tensor(2.5)},
//        metadata={"alias:head": "w"})
std::string PythonFile() {
  const absl::string_view header =
      R"({"__metadata__":{"alias:head":"w"},)"
      R"("a":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
      R"("s":{"dtype":"F32","shape":[],"data_offsets":[16,20]},)"
      R"("w":{"dtype":"BF16","shape":[1,2],"data_offsets":[20,24]},)"
      R"("flag":{"dtype":"BOOL","shape":[3],"data_offsets":[24,27]}}    )";
  const absl::string_view data(
      "\1\0\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff\0\0 "
      "@\xc0?\0\xc0\1\0\1",
      27);
  return absl::StrCat(absl::string_view("\x08\x01\0\0\0\0\0\0", 8), header,
                      data);
}

TEST(SafetensorsTest, FileOfThePythonLibraryIsRead) {
  const Buffer file = Buffer::FromString(PythonFile());

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto tensors, ParseSafetensors(file));

  ASSERT_EQ(tensors.size(), 4);
  EXPECT_EQ(Describe(tensors.at("a").dtype, tensors.at("a").shape),
            "int64 [2]");
  EXPECT_EQ(
      Bytes(tensors.at("a")),
      std::string("\1\0\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff", 16));
  EXPECT_EQ(Describe(tensors.at("s").dtype, tensors.at("s").shape),
            "float32 []");
  EXPECT_EQ(Bytes(tensors.at("s")), std::string("\0\0 @", 4));
  EXPECT_EQ(Describe(tensors.at("w").dtype, tensors.at("w").shape),
            "bfloat16 [1,2]");
  EXPECT_EQ(Bytes(tensors.at("flag")), std::string("\1\0\1", 3));
  EXPECT_THAT(ParseSafetensorsMetadata(file),
              IsOkAndHolds(ElementsAre(Pair("alias:head", "w"))));
}

TEST(SafetensorsTest, AlignedTensorsShareTheFile) {
  const Buffer file = Buffer::FromString(PythonFile());

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto tensors, ParseSafetensors(file));

  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(tensor.data.owner(), file.owner()) << name;
  }
}

TEST(SafetensorsTest, TensorThatLiesUnalignedIsCopied) {
  const Buffer file =
      File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
           R"("b":{"dtype":"I32","shape":[1],"data_offsets":[1,5]}} )",
           5);

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto tensors, ParseSafetensors(file));

  const HostTensor& b = tensors.at("b");
  EXPECT_EQ(Bytes(b), std::string("\1\2\3\4"));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data.data()) % 4, 0);
}

TEST(SafetensorsTest, EveryDTypeSurvivesTheTrip) {
  std::map<std::string, HostTensor> sent;
  for (int value = v1::DType_MIN + 1; value <= v1::DType_MAX; ++value) {
    const auto dtype = static_cast<DType>(value);
    std::string bytes(3 * ElementSize(dtype), static_cast<char>(value));
    sent[absl::StrCat("layer.", DTypeName(dtype))] = {
        dtype, {3, 1}, Buffer::FromString(std::move(bytes))};
  }
  sent["empty"] = {DType::kFloat32, {0, 4}, Buffer()};
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};

  const Buffer file = Buffer::FromString(SerializeSafetensors(sent, metadata));
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto received, ParseSafetensors(file));

  ASSERT_EQ(received.size(), sent.size());
  for (const auto& [name, tensor] : sent) {
    EXPECT_EQ(received.at(name).dtype, tensor.dtype);
    EXPECT_EQ(received.at(name).shape, tensor.shape);
    EXPECT_EQ(Bytes(received.at(name)), Bytes(tensor));
    if (tensor.data.empty()) continue;
    EXPECT_EQ(received.at(name).data.owner(), file.owner()) << name;
  }
  EXPECT_THAT(ParseSafetensorsMetadata(file), IsOkAndHolds(metadata));
}

TEST(SafetensorsTest, FileWithoutTensorsOrMetadataIsEmpty) {
  const Buffer file = Buffer::FromString(SerializeSafetensors({}));

  EXPECT_THAT(ParseSafetensors(file), IsOk());
  EXPECT_THAT(ParseSafetensorsMetadata(file), IsOkAndHolds(IsEmpty()));
}

TEST(SafetensorsTest, BrokenEntriesAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {OneEntry("\"F32\"", "[2]", "[0,4]"),
       "\"x\" has 4 bytes; float32 [2] takes 8"},
      {OneEntry("\"I8\"", "[4]", "[4,8]"),
       "\"x\" begins at byte 4; what is before it ends at 0"},
      {OneEntry("\"I8\"", "[9]", "[0,9]"),
       "\"x\" ends at byte 9; the data ends at 8"},
      {OneEntry("\"I8\"", "[4]", "[0,4]"),
       "the entries end at byte 4; the data ends at 8"},
      {OneEntry("\"I8\"", "[8]", "[8,0]"), "data_offsets"},
      {OneEntry("\"I8\"", "[8]", "[0,8,8]"), "data_offsets"},
      {OneEntry("\"I8\"", "[8]", "[0,-8]"), "data_offsets"},
      {OneEntry("\"I8\"", "[8]", "[0,8.0]"), "data_offsets"},
      {OneEntry("\"I8\"", "[-8]", "[0,8]"), "no list of sizes"},
      {OneEntry("\"I8\"", "8", "[0,8]"), "no list of sizes"},
      {OneEntry("\"I8\"", "[1,1,1,1,1,1,1,1,8]", "[0,8]"), "9 dimensions"},
      {OneEntry("\"F32\"", "[4611686018427387904,4]", "[0,8]"), "2^63"},
      {OneEntry("\"F8_E4M3\"", "[8]", "[0,8]"), "dtype \"F8_E4M3\""},
      {OneEntry("8", "[8]", "[0,8]"), "\"x\" has a dtype that is no text"},
      {R"({"x":{"dtype":"I8","shape":[8]}})", "\"x\" is not an object of"},
      {R"({"x":[]})", "\"x\" is not an object of"},
      {R"({"a":{"dtype":"I8","shape":[5],"data_offsets":[0,5]},)"
       R"("b":{"dtype":"I8","shape":[4],"data_offsets":[4,8]}})",
       "\"b\" begins at byte 4; what is before it ends at 5"},
      {R"({"__metadata__":{"a":1}})", "\"__metadata__\" has something"},
      {R"({"__metadata__":[]})", "\"__metadata__\" is not an object"},
  };
  for (const auto& [header, problem] : cases) {
    EXPECT_THAT(ParseSafetensors(File(header, 8)),
                StatusIs(kInvalid, HasSubstr(problem)))
        << header;
  }
}

TEST(SafetensorsTest, BrokenHeadersAreRefused) {
  const std::string entry =
      R"({"dtype":"I8","shape":[0],"data_offsets":[0,0]})";

  EXPECT_THAT(ParseSafetensors(Buffer::FromString("1234567")),
              StatusIs(kInvalid, HasSubstr("7 bytes")));
  EXPECT_THAT(ParseSafetensors(Buffer::FromString("12345678{}")),
              StatusIs(kInvalid, HasSubstr("there are 2")));
  EXPECT_THAT(ParseSafetensors(File("[]", 0)),
              StatusIs(kInvalid, HasSubstr("not an object")));
  EXPECT_THAT(ParseSafetensors(File("", 0)), StatusIs(kInvalid));
  EXPECT_THAT(ParseSafetensors(File(
                  absl::StrCat("{\"x\":", entry, ",\"x\":", entry, "}"), 0)),
              StatusIs(kInvalid, HasSubstr("\"x\" is there twice")));
  EXPECT_THAT(ParseSafetensors(File(R"({"x":[[[[]]]]})", 0)),
              StatusIs(kInvalid, HasSubstr("more than 4 deep")));
}

TEST(SafetensorsTest, EnormousHeaderIsRefusedThoughItIsThere) {
  const std::string header((size_t{16} << 20) + 1, ' ');

  EXPECT_THAT(ParseSafetensors(File(header, 0)),
              StatusIs(kInvalid, HasSubstr("at most 16777216")));
}

}  // namespace
}  // namespace pipestage
