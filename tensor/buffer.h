#ifndef PIPESTAGE_TENSOR_BUFFER_H_
#define PIPESTAGE_TENSOR_BUFFER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace pipestage {

// Bytes, and whoever keeps them alive. Copies share the bytes; a slice keeps
// the whole alive. The memory may be a device's: then only its owner may touch
// it.
//
// Thread-compatible; the bytes themselves are not guarded.
class Buffer {
 public:
  Buffer() = default;
  // `owner` keeps [data, data + size) alive.
  Buffer(std::shared_ptr<const void> owner, void* data, size_t size)
      : owner_(std::move(owner)), data_(data), size_(size) {}

  // Uninitialised host memory, aligned to 64 bytes.
  static Buffer Allocate(size_t size);
  // Takes the string's bytes without copying them.
  static Buffer FromString(std::string bytes);
  static Buffer CopyOf(const void* data, size_t size);

  const std::byte* data() const { return static_cast<std::byte*>(data_); }
  // Only for whoever filled or fills the buffer: others may share it.
  std::byte* mutable_data() { return static_cast<std::byte*>(data_); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Bytes [offset, offset + size), which must lie within.
  Buffer Slice(size_t offset, size_t size) const;

  // The same bytes at an address that is a multiple of `alignment`: a slice if
  // they lie at one, else a copy.
  Buffer AlignedSlice(size_t offset, size_t size, size_t alignment) const;

  // Drops this reference to the bytes.
  void Reset() { *this = Buffer(); }

  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::shared_ptr<const void> owner_;
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_TENSOR_BUFFER_H_
