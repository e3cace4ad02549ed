#include "client/tensor_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/mapped_file.h"
#include "base/status_macros.h"
#include "tensor/npy.h"
#include "tensor/safetensors.h"

namespace pipestage {
namespace {

constexpr absl::string_view kNpy = ".npy";
constexpr absl::string_view kSafetensors = ".safetensors";
constexpr absl::string_view kSelector = ".safetensors:";

absl::StatusOr<Buffer> MapFile(const std::string& path) {
  PIPESTAGE_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file,
                             MappedFile::Open(path));
  // A Buffer's bytes are not written to unless one filled them oneself.
  char* data = const_cast<char*>(file->data());
  const size_t size = file->size();
  return Buffer(std::move(file), data, size);
}

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

std::string NamesOf(const std::map<std::string, HostTensor>& tensors) {
  return absl::StrJoin(tensors, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.first);
  });
}

// `wanted`: after a colon, or empty. `name`: what the tensor is read for.
absl::StatusOr<HostTensor> ReadSafetensors(const std::string& path,
                                           const std::string& wanted,
                                           absl::string_view name) {
  PIPESTAGE_ASSIGN_OR_RETURN(const Buffer file, MapFile(path));
  absl::StatusOr<std::map<std::string, HostTensor>> tensors =
      ParseSafetensors(file);
  if (!tensors.ok()) return InFile(path, tensors.status());
  auto found = tensors->find(wanted.empty() ? std::string(name) : wanted);
  if (found != tensors->end()) return found->second;
  if (!wanted.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " has no tensor \"", wanted, "\"; it has ", NamesOf(*tensors)));
  }
  if (tensors->size() == 1) return tensors->begin()->second;
  return absl::InvalidArgumentError(absl::StrCat(
      path, " has ", tensors->size(), " tensors, none named \"", name,
      "\": name one as ", path, ":TENSOR (", NamesOf(*tensors), ")"));
}

absl::Status ErrnoStatus(absl::string_view what, const std::string& path) {
  const int error = errno;
  return absl::ErrnoToStatus(error, absl::StrCat(what, " ", path));
}

absl::Status WriteAll(int fd, absl::string_view bytes,
                      const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus("cannot write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, absl::string_view bytes) {
  const std::string partial = absl::StrCat(path, ".partial-", getpid());
  const int fd =
      open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return ErrnoStatus("cannot create", partial);
  absl::Status status = WriteAll(fd, bytes, partial);
  if (close(fd) != 0 && status.ok()) {
    status = ErrnoStatus("cannot write", partial);
  }
  if (status.ok() && rename(partial.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus("cannot create", path);
  }
  if (!status.ok()) unlink(partial.c_str());
  return status;
}

}  // namespace

absl::StatusOr<HostTensor> ReadTensorFile(absl::string_view file,
                                          absl::string_view name) {
  if (const size_t at = file.rfind(kSelector); at != file.npos) {
    const size_t path_size = at + kSafetensors.size();
    return ReadSafetensors(std::string(file.substr(0, path_size)),
                           std::string(file.substr(path_size + 1)), name);
  }
  const std::string path(file);
  if (absl::EndsWith(path, kSafetensors)) {
    return ReadSafetensors(path, "", name);
  }
  if (!absl::EndsWith(path, kNpy)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot tell the format of ", path,
                     ": its name ends with neither .npy nor .safetensors"));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(const Buffer bytes, MapFile(path));
  absl::StatusOr<HostTensor> tensor = ParseNpy(bytes);
  if (!tensor.ok()) return InFile(path, tensor.status());
  return tensor;
}

absl::Status WriteNpyFile(const std::string& path, const HostTensor& tensor) {
  if (!absl::EndsWith(path, kNpy)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the name must end with .npy"));
  }
  absl::StatusOr<std::string> bytes = SerializeNpy(tensor);
  if (!bytes.ok()) return InFile(path, bytes.status());
  return WriteFile(path, *bytes);
}

absl::Status WriteSafetensorsFile(
    const std::string& path, const std::map<std::string, HostTensor>& tensors) {
  if (!absl::EndsWith(path, kSafetensors)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the name must end with .safetensors"));
  }
  return WriteFile(path, SerializeSafetensors(tensors));
}

}  // namespace pipestage
