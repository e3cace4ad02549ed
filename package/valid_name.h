#ifndef PIPESTAGE_PACKAGE_VALID_NAME_H_
#define PIPESTAGE_PACKAGE_VALID_NAME_H_

#include "absl/strings/string_view.h"

namespace pipestage {

// Whether `name` may name a model, a version or a data set, and so a directory:
// ^[a-z0-9][a-z0-9._-]{0,127}$.
bool IsValidName(absl::string_view name);

}  // namespace pipestage

#endif  // PIPESTAGE_PACKAGE_VALID_NAME_H_
