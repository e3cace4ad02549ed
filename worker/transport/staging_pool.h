#ifndef PIPESTAGE_WORKER_TRANSPORT_STAGING_POOL_H_
#define PIPESTAGE_WORKER_TRANSPORT_STAGING_POOL_H_

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace pipestage {

// Buffers for messages small enough to be put together by copying. Reused, so
// that a message costs no allocation once as many have been under way before.
//
// Thread-safe. Outlives its buffers.
class StagingPool {
 public:
  // Largest message that is put together.
  static constexpr size_t kMaxSize = 64 * 1024;

  // Goes back to the pool when destroyed.
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept { *this = std::move(other); }
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer();

    std::byte* data() const { return bytes_.get(); }

   private:
    friend class StagingPool;
    StagingPool* pool_ = nullptr;
    int size_class_ = 0;
    std::unique_ptr<std::byte[]> bytes_;
  };

  // At least `size` uninitialised bytes, `size` being at most kMaxSize.
  Buffer Take(size_t size);

 private:
  // 128 bytes, 256, ... 64 KiB.
  static constexpr int kNumClasses = 10;
  static size_t ClassSize(int size_class) { return size_t{128} << size_class; }

  void Give(int size_class, std::unique_ptr<std::byte[]> bytes);

  absl::Mutex mu_;
  std::array<std::vector<std::unique_ptr<std::byte[]>>, kNumClasses> free_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_STAGING_POOL_H_
