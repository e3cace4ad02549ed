#include "client/up/find_binary.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pipestage {

absl::StatusOr<std::string> ExecutableFolder() {
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return absl::InternalError(
        absl::StrCat("cannot read /proc/self/exe: ", error.message()));
  }
  return path.parent_path().string();
}

absl::StatusOr<std::string> FindBinary(absl::string_view folder,
                                       absl::string_view name,
                                       absl::string_view flag) {
  const std::string candidates[] = {
      absl::StrCat(folder, "/", name),
      absl::StrCat(folder, "/../", name, "/", name),
  };
  for (const std::string& path : candidates) {
    if (std::filesystem::is_regular_file(path) &&
        access(path.c_str(), X_OK) == 0) {
      return std::filesystem::weakly_canonical(path).string();
    }
  }
  return absl::NotFoundError(absl::StrCat("no program \"", name, "\" at ",
                                          absl::StrJoin(candidates, " or "),
                                          "; name it with ", flag));
}

}  // namespace pipestage
