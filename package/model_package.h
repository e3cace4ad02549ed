#ifndef PIPESTAGE_PACKAGE_MODEL_PACKAGE_H_
#define PIPESTAGE_PACKAGE_MODEL_PACKAGE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mapped_file.h"
#include "package/contract.h"
#include "package/valid_name.h"

namespace pipestage {

// A model as it lies on disk: <repository>/<name>/<version>/pipeline.json and
// the files it names. Opening reads and checks pipeline.json only; a file's
// digest is verified when the file is opened, so that each worker reads only
// its own.
//
// Thread-safe.
class ModelPackage {
 public:
  // Errors, all with the name, the version and the file in the message:
  //   InvalidArgument     name or version does not match
  //   ^[a-z0-9][a-z0-9._-]{0,127}$ NotFound            no such directory or no
  //   pipeline.json (MODEL_NOT_FOUND) FailedPrecondition  pipeline.json is
  //   broken, or says another name or version
  //                       (MODEL_BROKEN)
  static absl::StatusOr<std::shared_ptr<const ModelPackage>> Open(
      const std::string& repository, absl::string_view name,
      absl::string_view version);

  const PackageContract& contract() const { return contract_; }
  // SHA-256 of pipeline.json, hex. It covers every file, for pipeline.json
  // holds their digests.
  const std::string& digest() const { return digest_; }
  const std::string& directory() const { return directory_; }
  // "byte-lm@1".
  std::string ToString() const;

  // Maps a file of the package after verifying its size and SHA-256 through the
  // same mapping. The path must be one of contract().files and stay beneath the
  // package's directory, symbolic links included.
  // Errors: FailedPrecondition (MODEL_BROKEN) naming file and reason.
  absl::StatusOr<std::shared_ptr<const MappedFile>> OpenFile(
      absl::string_view path) const;

 private:
  ModelPackage() = default;

  std::string directory_;
  std::string digest_;
  PackageContract contract_;
};

struct PackageListing {
  std::string name;
  std::string version;
};

// Every <name>/<version>/pipeline.json beneath `repository`: names in order, of
// a name the newest version first (numbers within versions compare as numbers:
// "10" is newer than "9"). Directories with other names are passed over.
absl::StatusOr<std::vector<PackageListing>> ListPackages(
    const std::string& repository);

// The order used for "newest": true if `a` is an older version than `b`.
bool VersionLess(absl::string_view a, absl::string_view b);

}  // namespace pipestage

#endif  // PIPESTAGE_PACKAGE_MODEL_PACKAGE_H_
