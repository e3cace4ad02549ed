#ifndef PIPESTAGE_CLIENT_UP_FIND_BINARY_H_
#define PIPESTAGE_CLIENT_UP_FIND_BINARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pipestage {

// The folder of the program that runs, from /proc/self/exe.
absl::StatusOr<std::string> ExecutableFolder();

// The program `name` ("worker") of the same build or installation as the one in
// `folder`: beside it, or in ../<name>/, as Bazel lays them out. NotFound names
// the places looked at, and `flag`, which gives the path by hand.
absl::StatusOr<std::string> FindBinary(absl::string_view folder,
                                       absl::string_view name,
                                       absl::string_view flag);

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_UP_FIND_BINARY_H_
