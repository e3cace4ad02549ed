#include "tensor/npy.h"

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";
constexpr size_t kVersionEnd = 8;  // magic, major, minor

struct DTypeCode {
  DType dtype;
  absl::string_view code;
};
constexpr std::array<DTypeCode, 9> kCodes = {{
    {DType::kBool, "|b1"},
    {DType::kUint8, "|u1"},
    {DType::kInt8, "|i1"},
    {DType::kInt16, "<i2"},
    {DType::kInt32, "<i4"},
    {DType::kInt64, "<i8"},
    {DType::kFloat16, "<f2"},
    {DType::kFloat32, "<f4"},
    {DType::kFloat64, "<f8"},
}};

absl::Status Error(absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("npy: ", problem));
}

absl::StatusOr<DType> DTypeFromCode(absl::string_view code) {
  for (const DTypeCode& row : kCodes) {
    // Byte order means nothing for single bytes.
    if (row.code == code || (ElementSize(row.dtype) == 1 && code.size() == 3 &&
                             code.substr(1) == row.code.substr(1))) {
      return row.dtype;
    }
  }
  if (!code.empty() && code[0] == '>') {
    return Error(absl::StrCat("dtype \"", code, "\" is big endian"));
  }
  if (absl::StrContains(code, 'O')) {
    return Error(absl::StrCat("dtype \"", code, "\" is of Python objects"));
  }
  return Error(absl::StrCat("dtype \"", code, "\" is not supported"));
}

// The fields of a header such as
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;
};

// Reads the part of Python's literals that NumPy writes.
class HeaderParser {
 public:
  explicit HeaderParser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Header> Parse() {
    if (!Take("{")) return Expected("\"{\"");
    while (!Take("}")) {
      PIPESTAGE_RETURN_IF_ERROR(ParseMember());
      if (!Take(",") && !Peek("}")) return Expected("\",\" or \"}\"");
    }
    SkipSpaces();
    if (position_ != text_.size()) return Expected("the end");
    if (!header_.descr) return Error("the header has no 'descr'");
    if (!header_.fortran_order)
      return Error("the header has no 'fortran_order'");
    if (!header_.shape) return Error("the header has no 'shape'");
    return header_;
  }

 private:
  absl::Status ParseMember() {
    PIPESTAGE_ASSIGN_OR_RETURN(const std::string key, ParseString());
    if (!Take(":")) return Expected("\":\"");
    if (key == "descr" && !header_.descr) {
      if (Peek("[")) return Error("dtypes with fields are not supported");
      PIPESTAGE_ASSIGN_OR_RETURN(header_.descr, ParseString());
    } else if (key == "fortran_order" && !header_.fortran_order) {
      const bool is_true = Take("True");
      if (!is_true && !Take("False")) return Expected("True or False");
      header_.fortran_order = is_true;
    } else if (key == "shape" && !header_.shape) {
      PIPESTAGE_ASSIGN_OR_RETURN(header_.shape, ParseShape());
    } else {
      return Error(absl::StrCat("the header has a key '", key,
                                "' that is unknown or there twice"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ParseString() {
    SkipSpaces();
    const char quote = position_ < text_.size() ? text_[position_] : '\0';
    if (quote != '\'' && quote != '"') return Expected("a text in quotes");
    const size_t end = text_.find(quote, position_ + 1);
    if (end == absl::string_view::npos) return Expected("a text that ends");
    const absl::string_view content =
        text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return std::string(content);
  }

  absl::StatusOr<Shape> ParseShape() {
    if (!Take("(")) return Expected("\"(\"");
    Shape shape;
    while (!Take(")")) {
      PIPESTAGE_ASSIGN_OR_RETURN(const int64_t size, ParseSize());
      shape.push_back(size);
      // "(3)" is a number in Python, no tuple.
      if (!Take(",") && (shape.size() == 1 || !Peek(")"))) {
        return Expected("\",\"");
      }
    }
    return shape;
  }

  absl::StatusOr<int64_t> ParseSize() {
    SkipSpaces();
    const size_t start = position_;
    while (position_ < text_.size() && absl::ascii_isdigit(text_[position_])) {
      ++position_;
    }
    int64_t size = 0;
    if (!absl::SimpleAtoi(text_.substr(start, position_ - start), &size)) {
      position_ = start;
      return Expected("a size");
    }
    return size;
  }

  void SkipSpaces() {
    while (position_ < text_.size() && absl::ascii_isspace(text_[position_])) {
      ++position_;
    }
  }
  bool Peek(absl::string_view token) {
    SkipSpaces();
    return text_.substr(position_, token.size()) == token;
  }
  bool Take(absl::string_view token) {
    if (!Peek(token)) return false;
    position_ += token.size();
    return true;
  }
  absl::Status Expected(absl::string_view what) {
    return Error(absl::StrCat("expected ", what, " at byte ", position_,
                              " of the header"));
  }

  const absl::string_view text_;
  size_t position_ = 0;
  Header header_;
};

// Where the header's text begins, and its length.
absl::StatusOr<std::pair<size_t, size_t>> FindHeader(absl::string_view file) {
  if (file.substr(0, kMagic.size()) != kMagic || file.size() < kVersionEnd) {
    return Error("the file does not begin as a .npy file does");
  }
  const int major = static_cast<unsigned char>(file[6]);
  if (major < 1 || major > 3) {
    return Error(absl::StrCat("version ", major, " is not known"));
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (file.size() < kVersionEnd + length_bytes) {
    return Error("the file ends within its header");
  }
  size_t length = 0;
  for (size_t i = length_bytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(file[kVersionEnd + i]);
  }
  const size_t start = kVersionEnd + length_bytes;
  if (length > file.size() - start) {
    return Error(absl::StrCat("the header has ", length, " bytes; there are ",
                              file.size() - start));
  }
  return std::make_pair(start, length);
}

}  // namespace

absl::StatusOr<HostTensor> ParseNpy(const Buffer& file) {
  const absl::string_view bytes(reinterpret_cast<const char*>(file.data()),
                                file.size());
  PIPESTAGE_ASSIGN_OR_RETURN(const auto place, FindHeader(bytes));
  const auto [start, length] = place;
  PIPESTAGE_ASSIGN_OR_RETURN(const Header header,
                             HeaderParser(bytes.substr(start, length)).Parse());
  PIPESTAGE_ASSIGN_OR_RETURN(const DType dtype, DTypeFromCode(*header.descr));
  if (*header.fortran_order) {
    return Error(
        "the array is in Fortran order; save np.ascontiguousarray(it)");
  }
  const absl::StatusOr<int64_t> wanted = NumBytes(dtype, *header.shape);
  if (!wanted.ok()) return Error(wanted.status().message());
  const size_t size = file.size() - start - length;
  if (static_cast<int64_t>(size) != *wanted) {
    return Error(absl::StrCat("there are ", size, " bytes of data; ",
                              Describe(dtype, *header.shape), " takes ",
                              *wanted));
  }
  return HostTensor{
      dtype, *header.shape,
      file.AlignedSlice(start + length, size, ElementSize(dtype))};
}

absl::StatusOr<std::string> SerializeNpy(const HostTensor& tensor) {
  absl::string_view code;
  for (const DTypeCode& row : kCodes) {
    if (row.dtype == tensor.dtype) code = row.code;
  }
  if (code.empty()) {
    return Error(absl::StrCat(DTypeName(tensor.dtype),
                              " has no code in NumPy; write .safetensors"));
  }
  std::string header = absl::StrCat(
      "{'descr': '", code, "', 'fortran_order': False, 'shape': (",
      absl::StrJoin(tensor.shape, ", "), tensor.rank() == 1 ? "," : "", "), }");
  // As NumPy pads it: a newline ends the header, the data begins at 64 bytes.
  const size_t start = kVersionEnd + 2;
  const size_t padded = (start + header.size() + 1 + 63) / 64 * 64 - start;
  header.resize(padded - 1, ' ');
  header.push_back('\n');
  std::string file(kMagic);
  file.append({'\1', '\0', static_cast<char>(padded & 0xff),
               static_cast<char>(padded >> 8)});
  file += header;
  file.append(reinterpret_cast<const char*>(tensor.data.data()),
              tensor.data.size());
  return file;
}

}  // namespace pipestage
