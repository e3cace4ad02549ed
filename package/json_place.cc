#include "package/json_place.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

using nlohmann::json;

bool IsPlain(absl::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-';
  });
}

absl::string_view TypeName(const json& value) {
  if (value.is_number_integer()) return "an integer";
  if (value.is_number()) return "a number that is no 64-bit integer";
  if (value.is_string()) return "a string";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return value.is_null() ? "null" : "a boolean";
}

bool Contains(std::initializer_list<absl::string_view> keys,
              absl::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

absl::Status JsonPlace::Error(absl::string_view problem) const {
  return absl::InvalidArgumentError(
      absl::StrCat(path_.empty() ? "the document" : path_, ": ", problem));
}

absl::StatusOr<std::string> JsonPlace::String() const {
  if (!value_->is_string()) {
    return Error(absl::StrCat("expected a string, found ", TypeName(*value_)));
  }
  return value_->get_ref<const std::string&>();
}

absl::StatusOr<int64_t> JsonPlace::Integer(int64_t min, int64_t max) const {
  if (!value_->is_number_integer()) {
    return Error(
        absl::StrCat("expected an integer, found ", TypeName(*value_)));
  }
  const bool too_large = value_->is_number_unsigned() &&
                         value_->get<uint64_t>() > uint64_t{INT64_MAX};
  const int64_t number = too_large ? INT64_MAX : value_->get<int64_t>();
  if (too_large || number < min || number > max) {
    return Error(absl::StrCat("is ", value_->dump(), "; allowed are ", min,
                              " to ", max));
  }
  return number;
}

absl::StatusOr<std::vector<JsonPlace>> JsonPlace::Elements() const {
  if (!value_->is_array()) {
    return Error(absl::StrCat("expected a list, found ", TypeName(*value_)));
  }
  std::vector<JsonPlace> elements;
  for (size_t i = 0; i < value_->size(); ++i) {
    elements.push_back(
        JsonPlace((*value_)[i], absl::StrCat(path_, "[", i, "]")));
  }
  return elements;
}

absl::StatusOr<std::vector<std::pair<std::string, JsonPlace>>>
JsonPlace::Members() const {
  PIPESTAGE_RETURN_IF_ERROR(
      value_->is_object() ? absl::OkStatus()
                          : Error(absl::StrCat("expected an object, found ",
                                               TypeName(*value_))));
  std::vector<std::pair<std::string, JsonPlace>> members;
  for (const auto& [key, value] : value_->items()) {
    members.emplace_back(key, Child(key, value));
  }
  return members;
}

absl::Status JsonPlace::CheckKeys(
    std::initializer_list<absl::string_view> required,
    std::initializer_list<absl::string_view> optional) const {
  PIPESTAGE_ASSIGN_OR_RETURN(const auto members, Members());
  for (const auto& [key, place] : members) {
    if (!Contains(required, key) && !Contains(optional, key)) {
      return place.Error("unknown key");
    }
  }
  for (const absl::string_view key : required) {
    PIPESTAGE_RETURN_IF_ERROR(Require(key).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<JsonPlace> JsonPlace::Require(absl::string_view key) const {
  PIPESTAGE_RETURN_IF_ERROR(Members().status());
  const std::optional<JsonPlace> member = Find(key);
  if (!member) return Child(key, *value_).Error("missing");
  return *member;
}

JsonPlace JsonPlace::At(absl::string_view key) const {
  return Child(key, *value_->find(std::string(key)));
}

std::optional<JsonPlace> JsonPlace::Find(absl::string_view key) const {
  const auto found = value_->find(std::string(key));
  if (found == value_->end()) return std::nullopt;
  return Child(key, *found);
}

JsonPlace JsonPlace::Child(absl::string_view key, const json& value) const {
  if (!IsPlain(key)) {
    return JsonPlace(value, absl::StrCat(path_, "[\"", key, "\"]"));
  }
  return JsonPlace(
      value, path_.empty() ? std::string(key) : absl::StrCat(path_, ".", key));
}

}  // namespace pipestage
