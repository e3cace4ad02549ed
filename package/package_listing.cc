#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "package/model_package.h"

namespace pipestage {
namespace {

namespace fs = std::filesystem;

// Names of the directories in `directory` (or links to some) that could be a
// model's or a version's.
absl::StatusOr<std::vector<std::string>> ValidDirectories(
    const fs::path& directory) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    std::error_code ignored;  // what cannot be examined is passed over
    if (IsValidName(name) && entry->is_directory(ignored)) {
      names.push_back(name);
    }
  }
  if (error) {
    return absl::ErrnoToStatus(
        error.value(), absl::StrCat("cannot list ", directory.string()));
  }
  return names;
}

// The run of digits at the front of `text`, without leading zeros.
absl::string_view TakeNumber(absl::string_view& text) {
  size_t size = 0;
  while (size < text.size() && absl::ascii_isdigit(text[size])) ++size;
  absl::string_view number = text.substr(0, size);
  text.remove_prefix(size);
  while (number.size() > 1 && number[0] == '0') number.remove_prefix(1);
  return number;
}

// Negative, zero or positive, as of strcmp; runs of digits compare as numbers.
int CompareVersions(absl::string_view a, absl::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (absl::ascii_isdigit(a[0]) && absl::ascii_isdigit(b[0])) {
      const absl::string_view x = TakeNumber(a);
      const absl::string_view y = TakeNumber(b);
      if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
      if (x != y) return x.compare(y);
    } else {
      // A number stands where "0" does, so that the order is total.
      const char x = absl::ascii_isdigit(a[0]) ? '0' : a[0];
      const char y = absl::ascii_isdigit(b[0]) ? '0' : b[0];
      if (x != y) return x < y ? -1 : 1;
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return static_cast<int>(!a.empty()) - static_cast<int>(!b.empty());
}

}  // namespace

bool VersionLess(absl::string_view a, absl::string_view b) {
  const int order = CompareVersions(a, b);
  return order != 0 ? order < 0 : a < b;  // "1" and "01" are two versions
}

absl::StatusOr<std::vector<PackageListing>> ListPackages(
    const std::string& repository) {
  absl::StatusOr<std::vector<std::string>> names = ValidDirectories(repository);
  if (!names.ok()) return names.status();
  std::vector<PackageListing> packages;
  for (const std::string& name : *names) {
    const fs::path directory = fs::path(repository) / name;
    const auto versions = ValidDirectories(directory);
    if (!versions.ok()) continue;  // removed or closed to us meanwhile
    for (const std::string& version : *versions) {
      std::error_code ignored;
      if (fs::exists(directory / version / "pipeline.json", ignored)) {
        packages.push_back({name, version});
      }
    }
  }
  std::sort(packages.begin(), packages.end(),
            [](const PackageListing& a, const PackageListing& b) {
              if (a.name != b.name) return a.name < b.name;
              return VersionLess(b.version, a.version);
            });
  return packages;
}

}  // namespace pipestage
