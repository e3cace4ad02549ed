#ifndef PIPESTAGE_BASE_SHA256_H_
#define PIPESTAGE_BASE_SHA256_H_

#include <string>

#include "absl/strings/string_view.h"

namespace pipestage {

// The SHA-256 of `bytes`: 64 hex digits in lower case.
std::string Sha256Hex(absl::string_view bytes);

}  // namespace pipestage

#endif  // PIPESTAGE_BASE_SHA256_H_
