#include "base/strict_json.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace pipestage {
namespace {

using nlohmann::json;

// Builds the value as the parser walks through the text, and stops it at the
// first thing that is too deep or said twice.
class Builder : public nlohmann::json_sax<json> {
 public:
  explicit Builder(int max_depth) : max_depth_(max_depth) {}

  json TakeValue() { return std::move(root_); }
  const std::string& problem() const { return problem_; }

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(number_integer_t value) override { return Put(value); }
  bool number_unsigned(number_unsigned_t value) override { return Put(value); }
  bool number_float(number_float_t value, const string_t&) override {
    return Put(value);
  }
  bool string(string_t& value) override { return Put(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in JSON text

  bool start_object(size_t) override { return Enter(json::object()); }
  bool start_array(size_t) override { return Enter(json::array()); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }

  bool key(string_t& key) override {
    if (open_.back()->contains(key)) {
      problem_ = absl::StrCat("key \"", key, "\" is there twice");
      return false;
    }
    key_ = std::move(key);
    return true;
  }

  bool parse_error(size_t position, const std::string& last_token,
                   const json::exception&) override {
    problem_ = absl::StrCat("not JSON at byte ", position, ": \"", last_token,
                            "\" was not expected");
    return false;
  }

 private:
  // The new value's place; valid until its container grows.
  json* Place(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& container = *open_.back();
    if (container.is_array()) {
      container.push_back(std::move(value));
      return &container.back();
    }
    return &(container[key_] = std::move(value));
  }

  bool Put(json value) {
    Place(std::move(value));
    return true;
  }

  bool Enter(json container) {
    if (static_cast<int>(open_.size()) == max_depth_) {
      problem_ = absl::StrCat("nested more than ", max_depth_, " deep");
      return false;
    }
    open_.push_back(Place(std::move(container)));
    return true;
  }

  bool Leave() {
    open_.pop_back();
    return true;
  }

  const int max_depth_;
  json root_;
  std::vector<json*> open_;  // from the root to the innermost open container
  std::string key_;
  std::string problem_;
};

}  // namespace

absl::StatusOr<json> ParseStrictJson(absl::string_view text, int max_depth) {
  Builder builder(max_depth);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    return absl::InvalidArgumentError(builder.problem());
  }
  return builder.TakeValue();
}

}  // namespace pipestage
