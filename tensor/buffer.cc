#include "tensor/buffer.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/log.h"

namespace pipestage {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

Buffer Buffer::Allocate(size_t size) {
  if (size == 0) return Buffer();
  // aligned_alloc wants a multiple of the alignment.
  const size_t padded = (size + kAlignment - 1) / kAlignment * kAlignment;
  PIPESTAGE_CHECK(padded >= size);
  void* data = std::aligned_alloc(kAlignment, padded);
  PIPESTAGE_CHECK(data != nullptr);
  return Buffer(std::shared_ptr<const void>(
                    data, [data](const void*) { std::free(data); }),
                data, size);
}

Buffer Buffer::FromString(std::string bytes) {
  auto owner = std::make_shared<std::string>(std::move(bytes));
  char* data = owner->data();
  const size_t size = owner->size();
  return Buffer(std::move(owner), data, size);
}

Buffer Buffer::CopyOf(const void* data, size_t size) {
  Buffer copy = Allocate(size);
  if (size != 0) std::memcpy(copy.mutable_data(), data, size);
  return copy;
}

Buffer Buffer::Slice(size_t offset, size_t size) const {
  PIPESTAGE_CHECK(offset <= size_ && size <= size_ - offset);
  return Buffer(owner_, static_cast<std::byte*>(data_) + offset, size);
}

Buffer Buffer::AlignedSlice(size_t offset, size_t size,
                            size_t alignment) const {
  const Buffer slice = Slice(offset, size);
  if (reinterpret_cast<uintptr_t>(slice.data()) % alignment == 0) return slice;
  return CopyOf(slice.data(), size);
}

}  // namespace pipestage
