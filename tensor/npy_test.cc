#include "tensor/npy.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::string Bytes(const HostTensor& tensor) {
  return std::string(reinterpret_cast<const char*>(tensor.data.data()),
                     tensor.data.size());
}

// A file of this version, header text and data, as NumPy lays it out.
std::string File(int version, absl::string_view header,
                 absl::string_view data) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  const size_t length_bytes = version == 1 ? 2 : 4;
  std::string text(header);
  while ((8 + length_bytes + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  for (size_t i = 0; i < length_bytes; ++i) {
    file += static_cast<char>(text.size() >> (8 * i));
  }
  return absl::StrCat(file, text, data);
}

absl::StatusOr<HostTensor> Parse(std::string file) {
  return ParseNpy(Buffer::FromString(std::move(file)));
}

// np.array([[1.5, -2, 3]], dtype=np.float32)
constexpr absl::string_view kHeader =
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }";
constexpr absl::string_view kData("\0\0\xc0?\0\0\0\xc0\0\0@@", 12);

TEST(NpyTest, EveryVersionIsRead) {
  for (const int version : {1, 2, 3}) {
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor tensor,
                                   Parse(File(version, kHeader, kData)));

    EXPECT_EQ(Describe(tensor.dtype, tensor.shape), "float32 [1,3]");
    EXPECT_EQ(Bytes(tensor), kData);
  }
}

TEST(NpyTest, WrittenFilesAreNumpysByteForByte) {
  // np.save of the array above, of np.arange(3, dtype=np.int16), of
  // np.array(True).
  EXPECT_THAT(
      SerializeNpy({DType::kFloat32,
                    {1, 3},
                    Buffer::CopyOf(kData.data(), kData.size())}),
      IsOkAndHolds(absl::StrCat(absl::string_view("\x93NUMPY\1\0v\0", 10),
                                kHeader, std::string(58, ' '), "\n", kData)));
  EXPECT_THAT(
      SerializeNpy(
          {DType::kInt16, {3}, Buffer::FromString({0, 0, 1, 0, 2, 0})}),
      IsOkAndHolds(absl::StrCat(
          absl::string_view("\x93NUMPY\1\0v\0", 10),
          "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }",
          std::string(60, ' '), "\n", absl::string_view("\0\0\1\0\2\0", 6))));
  EXPECT_THAT(SerializeNpy({DType::kBool, {}, Buffer::FromString("\1")}),
              IsOkAndHolds(absl::StrCat(
                  absl::string_view("\x93NUMPY\1\0v\0", 10),
                  "{'descr': '|b1', 'fortran_order': False, 'shape': (), }",
                  std::string(62, ' '), "\n\1")));
}

TEST(NpyTest, EveryDTypeThatNumpyHasSurvivesTheTrip) {
  for (int value = v1::DType_MIN + 1; value <= v1::DType_MAX; ++value) {
    const auto dtype = static_cast<DType>(value);
    const std::string bytes(6 * ElementSize(dtype), '\1');
    const HostTensor sent = {dtype, {2, 3}, Buffer::FromString(bytes)};

    const absl::StatusOr<std::string> file = SerializeNpy(sent);

    if (dtype == DType::kBFloat16) {
      EXPECT_THAT(file, StatusIs(kInvalid, HasSubstr("bfloat16")));
      continue;
    }
    ASSERT_THAT(file, IsOk());
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor received, Parse(*file));
    EXPECT_EQ(received.dtype, dtype);
    EXPECT_EQ(received.shape, sent.shape);
    EXPECT_EQ(Bytes(received), bytes);
  }
}

TEST(NpyTest, ArrayWithoutElementsSurvivesTheTrip) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const std::string file, SerializeNpy({DType::kInt64, {0, 5}, Buffer()}));

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor received, Parse(file));

  EXPECT_EQ(received.shape, Shape({0, 5}));
}

TEST(NpyTest, AlignedDataSharesTheFileAndUnalignedDataIsCopied) {
  const Buffer aligned = Buffer::FromString(File(1, kHeader, kData));
  // Ten bytes, then a header of 61: the data begins at an odd byte.
  const Buffer unaligned = Buffer::FromString(absl::StrCat(
      absl::string_view("\x93NUMPY\1\0\x3d\0", 10), kHeader, " \n", kData));

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor shared, ParseNpy(aligned));
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor copied, ParseNpy(unaligned));

  EXPECT_EQ(shared.data.owner(), aligned.owner());
  EXPECT_EQ(Bytes(copied), kData);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(copied.data.data()) % 4, 0);
}

TEST(NpyTest, KeysInAnyOrderAndEitherQuotesAreRead) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const HostTensor tensor,
      Parse(File(1,
                 "{\"shape\":(3,1,),\"fortran_order\" : False,"
                 "\"descr\":\"<f4\"}",
                 kData)));

  EXPECT_EQ(tensor.shape, Shape({3, 1}));
}

TEST(NpyTest, WhatIsNotSupportedIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (1, 3), }",
       "\">f4\" is big endian"},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 3), }",
       "Fortran order"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (1, 3), }",
       "Python objects"},
      {"{'descr': '<u4', 'fortran_order': False, 'shape': (1, 3), }",
       "\"<u4\" is not supported"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (1, 3), }",
       "\"<c8\" is not supported"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }",
       "fields"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4), }",
       "there are 12 bytes of data; float32 [1,4] takes 16"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }",
       "takes 8"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 3), }",
       "expected a size"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': "
       "(4611686018427387904, 4), }",
       "2^63"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': "
       "(1, 1, 1, 1, 1, 1, 1, 1, 3), }",
       "9 dimensions"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3), }",
       "expected \",\""},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (3,), }",
       "True or False"},
      {"{'descr': '<f4', 'shape': (3,), }", "no 'fortran_order'"},
      {"{'fortran_order': False, 'shape': (3,), }", "no 'descr'"},
      {"{'descr': '<f4', 'fortran_order': False, }", "no 'shape'"},
      {"{'descr': '<f4', 'descr': '<f4', }", "there twice"},
      {"{'descr': '<f4' 'shape': (3,)}", "expected \",\" or \"}\""},
      {"{'descr': '<f4", "a text that ends"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} 1", "the end"},
      {"", "expected \"{\""},
  };
  for (const auto& [header, problem] : cases) {
    EXPECT_THAT(Parse(File(1, header, kData)),
                StatusIs(kInvalid, HasSubstr(problem)))
        << header;
  }
}

TEST(NpyTest, FilesThatEndEarlyAreRefused) {
  const std::string whole = File(2, kHeader, kData);

  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(Parse(whole.substr(0, size)), StatusIs(kInvalid)) << size;
  }
  EXPECT_THAT(Parse(File(4, kHeader, kData)),
              StatusIs(kInvalid, HasSubstr("version 4")));
}

}  // namespace
}  // namespace pipestage
