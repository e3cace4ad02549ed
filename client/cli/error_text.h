#ifndef PIPESTAGE_CLIENT_CLI_ERROR_TEXT_H_
#define PIPESTAGE_CLIENT_CLI_ERROR_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pipestage {

// What a person should read of an error: what happened, the reason and where,
// as far as the server said, and what to do next.
std::string ErrorText(const absl::Status& status, absl::string_view address);

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_CLI_ERROR_TEXT_H_
