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

// The same on one line: control characters become \n, \t, \xNN. What is cut
// off is counted at the end. For text of others in a log, where it must neither
// fill the disk nor look like lines of our own.
std::string OneLine(absl::string_view text, size_t max_bytes);

// The beginning of `text` that takes at most `max_encoded` bytes when a trailer
// of gRPC carries it, which writes %XX for all but printable ASCII.
std::string ShortenedForTrailer(absl::string_view text, size_t max_encoded);

}  // namespace pipestage

#endif  // PIPESTAGE_BASE_PLAIN_TEXT_H_
