#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace pipestage {
namespace {

absl::Status ErrnoStatus(absl::string_view action, absl::string_view path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", action, " ", path));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(
    const std::string& path) {
  // Without O_NONBLOCK, opening a FIFO would wait for its writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return ErrnoStatus("open", path);
  const auto closer = absl::MakeCleanup([descriptor] { close(descriptor); });
  return FromDescriptor(descriptor, path);
}

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::FromDescriptor(
    int descriptor, const std::string& path) {
  struct stat info;
  if (fstat(descriptor, &info) != 0) return ErrnoStatus("examine", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a regular file"));
  }
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (size != 0) {  // mmap refuses no bytes
    data = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (data == MAP_FAILED) return ErrnoStatus("map", path);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, data, size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<void*>(data_), size_);
}

}  // namespace pipestage
