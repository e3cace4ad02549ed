#include "worker/receive_buffers.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"

namespace pipestage {

class ReceiveBuffers::Pool {
 public:
  explicit Pool(size_t max_idle_bytes) : max_idle_bytes_(max_idle_bytes) {}

  std::optional<Buffer> Take(size_t size) {
    absl::MutexLock lock(&mu_);
    Shelf* shelf = Find(size);
    if (shelf == nullptr || shelf->idle.empty()) {
      ++allocations_;
      return std::nullopt;
    }
    Buffer buffer = std::move(shelf->idle.back());
    shelf->idle.pop_back();
    idle_bytes_ -= size;
    return buffer;
  }

  void Return(Buffer buffer) {
    std::vector<Buffer> dropped;  // freed after the lock
    absl::MutexLock lock(&mu_);
    const size_t size = buffer.size();
    if (size > max_idle_bytes_) return;
    Shelf* shelf = Find(size);
    if (shelf == nullptr) shelf = &shelves_.emplace_back(Shelf{size, 0, {}});
    shelf->last_use = ++uses_;
    shelf->idle.push_back(std::move(buffer));
    idle_bytes_ += size;
    while (idle_bytes_ > max_idle_bytes_) dropped.push_back(DropOldest());
  }

  int64_t allocations() const {
    absl::MutexLock lock(&mu_);
    return allocations_;
  }
  size_t idle_bytes() const {
    absl::MutexLock lock(&mu_);
    return idle_bytes_;
  }

 private:
  struct Shelf {
    size_t size = 0;
    int64_t last_use = 0;
    std::vector<Buffer> idle;
  };

  Shelf* Find(size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (Shelf& shelf : shelves_) {
      if (shelf.size == size) return &shelf;
    }
    return nullptr;
  }

  // Something must be idle.
  Buffer DropOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::erase_if(shelves_, [](const Shelf& s) { return s.idle.empty(); });
    auto oldest = std::min_element(
        shelves_.begin(), shelves_.end(),
        [](const Shelf& a, const Shelf& b) { return a.last_use < b.last_use; });
    Buffer buffer = std::move(oldest->idle.back());
    oldest->idle.pop_back();
    idle_bytes_ -= oldest->size;
    return buffer;
  }

  const size_t max_idle_bytes_;
  mutable absl::Mutex mu_;
  std::vector<Shelf> shelves_ ABSL_GUARDED_BY(mu_);  // few sizes at a time
  size_t idle_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t uses_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t allocations_ ABSL_GUARDED_BY(mu_) = 0;
};

ReceiveBuffers::ReceiveBuffers(Allocator allocator, size_t max_idle_bytes)
    : allocator_(std::move(allocator)),
      pool_(std::make_shared<Pool>(max_idle_bytes)) {}

ReceiveBuffers::~ReceiveBuffers() = default;

absl::StatusOr<Buffer> ReceiveBuffers::Take(size_t size) {
  std::optional<Buffer> memory = pool_->Take(size);
  if (!memory.has_value()) {
    PIPESTAGE_ASSIGN_OR_RETURN(memory, allocator_(size));
  }
  void* const data = memory->mutable_data();
  // Gives the memory back when the last user is gone; the pool is kept alive
  // for it.
  struct Lease {
    std::shared_ptr<Pool> pool;
    Buffer memory;
    Lease(std::shared_ptr<Pool> from, Buffer leased)
        : pool(std::move(from)), memory(std::move(leased)) {}
    ~Lease() { pool->Return(std::move(memory)); }
  };
  auto lease = std::make_shared<Lease>(pool_, *std::move(memory));
  return Buffer(std::move(lease), data, size);
}

int64_t ReceiveBuffers::allocations() const { return pool_->allocations(); }
size_t ReceiveBuffers::idle_bytes() const { return pool_->idle_bytes(); }

}  // namespace pipestage
