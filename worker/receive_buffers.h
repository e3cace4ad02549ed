#ifndef PIPESTAGE_WORKER_RECEIVE_BUFFERS_H_
#define PIPESTAGE_WORKER_RECEIVE_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "tensor/buffer.h"

namespace pipestage {

// Memory to receive into, used again and again: what is allocated follows the
// largest number of buffers in use at one time, not the number of messages.
//
// Thread-safe. Buffers may outlive the pool.
class ReceiveBuffers {
 public:
  using Allocator = std::function<absl::StatusOr<Buffer>(size_t size)>;

  // Keeps at most `max_idle_bytes` that nobody uses; of sizes not used for the
  // longest time the least.
  ReceiveBuffers(Allocator allocator, size_t max_idle_bytes);
  ~ReceiveBuffers();

  // A buffer of this size, its content undefined. It comes back when the last
  // Buffer that shares it is gone. Errors: the allocator's.
  absl::StatusOr<Buffer> Take(size_t size);

  // How many times the allocator was asked, and what lies idle.
  int64_t allocations() const;
  size_t idle_bytes() const;

 private:
  class Pool;
  const Allocator allocator_;
  const std::shared_ptr<Pool> pool_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_RECEIVE_BUFFERS_H_
