#include "package/valid_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace pipestage {
namespace {

bool IsAlphanumeric(char c) {
  return absl::ascii_islower(c) || absl::ascii_isdigit(c);
}

}  // namespace

bool IsValidName(absl::string_view name) {
  return !name.empty() && name.size() <= 128 && IsAlphanumeric(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return IsAlphanumeric(c) || c == '.' || c == '_' || c == '-';
         });
}

}  // namespace pipestage
