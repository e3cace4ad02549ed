#ifndef PIPESTAGE_BASE_MAPPED_FILE_H_
#define PIPESTAGE_BASE_MAPPED_FILE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pipestage {

// A regular file mapped read-only into memory. Bytes are read when touched.
//
// Thread-safe. A file that shrinks while mapped raises SIGBUS: packages and
// data sets are replaced by renaming, never rewritten in place.
class MappedFile {
 public:
  // NotFound, PermissionDenied, or InvalidArgument if it is not a regular file.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(
      const std::string& path);
  // The same of an open file; `path` is for messages. The descriptor stays the
  // caller's, who may close it at once.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> FromDescriptor(
      int descriptor, const std::string& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  const char* data() const { return static_cast<const char*>(data_); }
  size_t size() const { return size_; }
  absl::string_view bytes() const { return {data(), size_}; }

 private:
  MappedFile(std::string path, const void* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  const std::string path_;
  const void* const data_;  // null when empty
  const size_t size_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_BASE_MAPPED_FILE_H_
