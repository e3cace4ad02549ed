#ifndef PIPESTAGE_BASE_PLAIN_TEXT_H_
#define PIPESTAGE_BASE_PLAIN_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace pipestage {

// `text` as a protobuf string may hold it: what is not UTF-8 becomes U+FFFD, a
// byte each. A message with other bytes in a string field does not parse at its
// receiver, and for a worker link that is the end of the link.
std::string ToUtf8(absl::string_view text);

// The same, of at most `max_bytes` bytes: no character is cut in two.
std::string ToUtf8(absl::string_view text, size_t max_bytes);

}  // namespace pipestage

#endif  // PIPESTAGE_BASE_PLAIN_TEXT_H_
