#include "worker/torch/exported_json.h"

#include <limits>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/strict_json.h"

namespace pipestage {
namespace {

// A block's graph lies some ten levels below its node.
constexpr int kMaxJsonDepth = 16 * kMaxGraphDepth;

}  // namespace

void Fail(std::string what) { throw Malformed{std::move(what)}; }

Json ParseJson(absl::string_view text) {
  absl::StatusOr<Json> json = ParseStrictJson(text, kMaxJsonDepth);
  if (!json.ok()) Fail(std::string(json.status().message()));
  return *std::move(json);
}

int64_t ParseInt(const Json& json) {
  const bool fits =
      json.is_number_integer() &&
      !(json.is_number_unsigned() &&
        json.get<uint64_t>() >
            static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits) Fail("expected a 64-bit integer");
  return json.get<int64_t>();
}

double ParseFloat(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const std::string text = json.get<std::string>();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  Fail(absl::StrCat("\"", text, "\" is no number"));
}

std::pair<std::string, const Json*> UnionMember(const Json& json) {
  if (!json.is_object() || json.size() != 1) {
    Fail(absl::StrCat("expected an object with one key, found ",
                      json.dump().substr(0, 80)));
  }
  return {json.begin().key(), &json.begin().value()};
}

}  // namespace pipestage
