#include "base/plain_text.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace pipestage {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Length of the well-formed sequence that `text`, which is not empty, begins
// with; 0 if there is none. The ranges are those of table 3-7 of the Unicode
// standard: no overlong forms, no surrogates, nothing above U+10FFFF.
size_t SequenceLength(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

bool IsControl(char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7F; }

std::string Escaped(char c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  if (c == '\r') return "\\r";
  return absl::StrCat("\\x",
                      absl::Hex(static_cast<uint8_t>(c), absl::kZeroPad2));
}

}  // namespace

std::string ToUtf8(absl::string_view text) {
  return ToUtf8(text, std::string::npos);
}

std::string ToUtf8(absl::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const absl::string_view next =
        length == 0 ? kReplacement : text.substr(0, length);
    if (next.size() > max_bytes - out.size()) break;
    out.append(next.data(), next.size());
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string OneLine(absl::string_view text, size_t max_bytes) {
  const std::string kept = ToUtf8(text.substr(0, max_bytes));
  std::string out;
  for (const char c : kept) {
    if (IsControl(c)) {
      out += Escaped(c);
    } else {
      out += c;
    }
  }
  if (text.size() > max_bytes) {
    absl::StrAppend(&out, " ... (", text.size(), " bytes)");
  }
  return out;
}

std::string ShortenedForTrailer(absl::string_view text, size_t max_encoded) {
  // What is beyond cannot be kept.
  const std::string all = ToUtf8(text.substr(0, max_encoded));
  size_t encoded = 0;
  size_t kept = 0;
  while (kept < all.size()) {
    const size_t length = SequenceLength(absl::string_view(all).substr(kept));
    const bool plain = length == 1 && !IsControl(all[kept]) && all[kept] != '%';
    encoded += plain ? 1 : 3 * length;
    if (encoded > max_encoded) break;
    kept += length;
  }
  if (kept == all.size() && text.size() <= max_encoded) return all;
  return absl::StrCat(all.substr(0, kept), " ...");
}

}  // namespace pipestage
