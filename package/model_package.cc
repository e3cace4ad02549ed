#include "package/model_package.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "package/open_beneath.h"

namespace pipestage {
namespace {

constexpr absl::string_view kContractFile = "pipeline.json";

// pipeline.json is read whole.
constexpr size_t kMaxContractBytes = size_t{16} << 20;

absl::Status Broken(absl::string_view package, absl::string_view file,
                    absl::string_view problem) {
  return WithReason(
      absl::FailedPreconditionError(
          absl::StrCat("model ", package, ": ", file, ": ", problem)),
      reason::kModelBroken,
      {{"model", std::string(package)}, {"file", std::string(file)}});
}

absl::Status CheckNameAndVersion(absl::string_view name,
                                 absl::string_view version) {
  for (const auto& [what, text] :
       {std::make_pair("name", name), std::make_pair("version", version)}) {
    if (IsValidName(text)) continue;
    return WithReason(absl::InvalidArgumentError(absl::StrCat(
                          "model ", name, "@", version, ": ", what, " \"", text,
                          "\" does not match ^[a-z0-9][a-z0-9._-]{0,127}$")),
                      reason::kInvalidInput);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const MappedFile>> MapContract(
    const std::string& package, const std::string& directory) {
  absl::StatusOr<std::shared_ptr<const MappedFile>> file =
      MappedFile::Open(absl::StrCat(directory, "/", kContractFile));
  if (absl::IsNotFound(file.status())) {
    return WithReason(
        absl::NotFoundError(absl::StrCat(
            "model ", package, " is not there: ", file.status().message())),
        reason::kModelNotFound, {{"model", package}});
  }
  if (!file.ok())
    return Broken(package, kContractFile, file.status().message());
  if ((*file)->size() > kMaxContractBytes) {
    return Broken(package, kContractFile,
                  absl::StrCat("has ", (*file)->size(), " bytes; at most ",
                               kMaxContractBytes, " are read"));
  }
  return file;
}

absl::Status CheckFile(const std::string& package, const std::string& path,
                       const PackageFile& expected, const MappedFile& file) {
  if (static_cast<int64_t>(file.size()) != expected.bytes) {
    return Broken(package, path,
                  absl::StrCat("has ", file.size(), " bytes; ", kContractFile,
                               " says ", expected.bytes));
  }
  const std::string digest = Sha256Hex(file.bytes());
  if (digest == expected.sha256) return absl::OkStatus();
  return Broken(package, path,
                absl::StrCat("has SHA-256 ", digest, "; ", kContractFile,
                             " says ", expected.sha256));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ModelPackage>> ModelPackage::Open(
    const std::string& repository, absl::string_view name,
    absl::string_view version) {
  PIPESTAGE_RETURN_IF_ERROR(CheckNameAndVersion(name, version));
  const std::string label = absl::StrCat(name, "@", version);
  std::shared_ptr<ModelPackage> package(new ModelPackage());
  package->directory_ = absl::StrCat(repository, "/", name, "/", version);
  PIPESTAGE_ASSIGN_OR_RETURN(const auto file,
                             MapContract(label, package->directory_));
  absl::StatusOr<PackageContract> contract = ParseContract(file->bytes());
  if (!contract.ok()) {
    return Broken(label, kContractFile, contract.status().message());
  }
  if (contract->name != name || contract->version != version) {
    return Broken(
        label, kContractFile,
        absl::StrCat("says it is ", contract->name, "@", contract->version));
  }
  package->digest_ = Sha256Hex(file->bytes());
  package->contract_ = *std::move(contract);
  return std::shared_ptr<const ModelPackage>(std::move(package));
}

std::string ModelPackage::ToString() const {
  return absl::StrCat(contract_.name, "@", contract_.version);
}

absl::StatusOr<std::shared_ptr<const MappedFile>> ModelPackage::OpenFile(
    absl::string_view path) const {
  const auto expected = contract_.files.find(std::string(path));
  if (expected == contract_.files.end()) {
    return Broken(ToString(), path,
                  absl::StrCat("is not among the files of ", kContractFile));
  }
  const std::string& name = expected->first;
  const int descriptor = OpenBeneath(directory_, name);
  if (descriptor < 0) {
    if (errno == EXDEV) {
      return Broken(ToString(), name, "leads out of the package");
    }
    return Broken(ToString(), name,
                  absl::ErrnoToStatus(errno, "cannot be opened").message());
  }
  const auto closer = absl::MakeCleanup([descriptor] { close(descriptor); });
  const auto file = MappedFile::FromDescriptor(
      descriptor, absl::StrCat(directory_, "/", name));
  if (!file.ok()) return Broken(ToString(), name, file.status().message());
  PIPESTAGE_RETURN_IF_ERROR(
      CheckFile(ToString(), name, expected->second, **file));
  return *file;
}

}  // namespace pipestage
