#ifndef PIPESTAGE_BASE_STRICT_JSON_H_
#define PIPESTAGE_BASE_STRICT_JSON_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace pipestage {

// One JSON value and nothing after it, from text that is not to be trusted:
// nested at most `max_depth` deep ("{}" is one deep) and without duplicate
// keys. Integers beyond 64 bits arrive as floating point.
//
// InvalidArgument names the byte or the key, and what is wrong there.
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text,
                                               int max_depth);

}  // namespace pipestage

#endif  // PIPESTAGE_BASE_STRICT_JSON_H_
