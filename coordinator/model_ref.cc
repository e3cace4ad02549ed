#include "coordinator/model_ref.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error_info.h"
#include "package/model_package.h"

namespace pipestage {

absl::StatusOr<v1::ModelRef> ParseModelRef(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('@', 1));
  const bool has_version = text.size() > parts.first.size();
  if (parts.first.empty() || (has_version && parts.second.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not NAME or NAME@VERSION of a model"));
  }
  v1::ModelRef ref;
  ref.set_name(std::string(parts.first));
  ref.set_version(std::string(parts.second));
  return ref;
}

std::string ToString(const v1::ModelRef& ref) {
  return ref.version().empty() ? ref.name()
                               : absl::StrCat(ref.name(), "@", ref.version());
}

absl::Status CheckModelRef(const v1::ModelRef& ref) {
  if (IsValidName(ref.name()) &&
      (ref.version().empty() || IsValidName(ref.version()))) {
    return absl::OkStatus();
  }
  return WithReason(absl::InvalidArgumentError(absl::StrCat(
                        "\"", ToString(ref).substr(0, 256),
                        "\" is not a model's name and version; both match "
                        "[a-z0-9][a-z0-9._-]{0,127}")),
                    reason::kInvalidInput);
}

}  // namespace pipestage
