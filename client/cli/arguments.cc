#include "client/cli/arguments.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace pipestage {

absl::StatusOr<v1::ModelRef> ParseModelRef(absl::string_view text) {
  v1::ModelRef model;
  const size_t at = text.find('@');
  model.set_name(std::string(text.substr(0, at)));
  if (at != text.npos) model.set_version(std::string(text.substr(at + 1)));
  if (model.name().empty() || (at != text.npos && model.version().empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not NAME or NAME@VERSION"));
  }
  return model;
}

std::string FormatModelRef(const v1::ModelRef& model) {
  return model.version().empty()
             ? model.name()
             : absl::StrCat(model.name(), "@", model.version());
}

absl::StatusOr<NamedFile> ParseNamedFile(absl::string_view text) {
  const size_t at = text.find('=');
  if (at == text.npos || at == 0 || at + 1 == text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not NAME=FILE"));
  }
  return NamedFile{std::string(text.substr(0, at)),
                   std::string(text.substr(at + 1))};
}

std::string CheckModelRef(const std::string& text) {
  return std::string(ParseModelRef(text).status().message());
}

std::string CheckNamedFile(const std::string& text) {
  return std::string(ParseNamedFile(text).status().message());
}

}  // namespace pipestage
