#include "package/open_beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace pipestage {
namespace {

constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

}  // namespace

int OpenBeneath(const std::string& root, const std::string& path) {
  const int directory = open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return -1;
  open_how how = {};
  how.flags = kFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const int descriptor = static_cast<int>(
      syscall(SYS_openat2, directory, path.c_str(), &how, sizeof(how)));
  const int problem = errno;
  close(directory);
  if (descriptor >= 0) return descriptor;
  if (problem == ENOSYS || problem == EPERM) {
    return OpenBeneathByName(root, path);
  }
  errno = problem;
  return -1;
}

int OpenBeneathByName(const std::string& root, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const std::string real_root = fs::canonical(root, error);
  const std::string real_path =
      error ? "" : fs::canonical(fs::path(root) / path, error).string();
  if (error) {
    errno = error.value();
    return -1;
  }
  if (!absl::StartsWith(real_path, absl::StrCat(real_root, "/"))) {
    errno = EXDEV;  // as openat2 says it
    return -1;
  }
  return open(real_path.c_str(), kFlags);
}

}  // namespace pipestage
