#include "worker/transport/staging_pool.h"

#include <utility>

namespace pipestage {

StagingPool::Buffer& StagingPool::Buffer::operator=(Buffer&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(size_class_, other.size_class_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

StagingPool::Buffer::~Buffer() {
  if (pool_ != nullptr) pool_->Give(size_class_, std::move(bytes_));
}

StagingPool::Buffer StagingPool::Take(size_t size) {
  Buffer buffer;
  buffer.pool_ = this;
  while (ClassSize(buffer.size_class_) < size) ++buffer.size_class_;
  {
    absl::MutexLock lock(&mu_);
    auto& free = free_[buffer.size_class_];
    if (!free.empty()) {
      buffer.bytes_ = std::move(free.back());
      free.pop_back();
    }
  }
  if (buffer.bytes_ == nullptr) {
    buffer.bytes_.reset(new std::byte[ClassSize(buffer.size_class_)]);
  }
  return buffer;
}

void StagingPool::Give(int size_class, std::unique_ptr<std::byte[]> bytes) {
  absl::MutexLock lock(&mu_);
  free_[size_class].push_back(std::move(bytes));
}

}  // namespace pipestage
