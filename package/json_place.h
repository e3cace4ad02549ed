#ifndef PIPESTAGE_PACKAGE_JSON_PLACE_H_
#define PIPESTAGE_PACKAGE_JSON_PLACE_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace pipestage {

// A value within a JSON document and the way to it, such as
// "stages[1].inputs[0].dtype", with which every error begins. Borrows the
// document.
//
// All errors are InvalidArgument.
class JsonPlace {
 public:
  explicit JsonPlace(const nlohmann::json& document) : value_(&document) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& path() const { return path_; }
  bool is_null() const { return value_->is_null(); }

  // "<path>: <problem>".
  absl::Status Error(absl::string_view problem) const;

  absl::StatusOr<std::string> String() const;
  // An integer in [min, max].
  absl::StatusOr<int64_t> Integer(int64_t min, int64_t max) const;
  absl::StatusOr<std::vector<JsonPlace>> Elements() const;
  // In the order of their keys.
  absl::StatusOr<std::vector<std::pair<std::string, JsonPlace>>> Members()
      const;

  // That it is an object with all `required` keys and, beyond them, only
  // `optional` ones.
  absl::Status CheckKeys(
      std::initializer_list<absl::string_view> required,
      std::initializer_list<absl::string_view> optional = {}) const;

  // The member of an object of which nothing is known yet.
  absl::StatusOr<JsonPlace> Require(absl::string_view key) const;

  // The member of an object that CheckKeys has passed. At: a required one.
  JsonPlace At(absl::string_view key) const;
  std::optional<JsonPlace> Find(absl::string_view key) const;
  // Where a member is or would be.
  JsonPlace Child(absl::string_view key, const nlohmann::json& value) const;

 private:
  JsonPlace(const nlohmann::json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  const nlohmann::json* value_;
  std::string path_;  // empty for the document
};

}  // namespace pipestage

#endif  // PIPESTAGE_PACKAGE_JSON_PLACE_H_
