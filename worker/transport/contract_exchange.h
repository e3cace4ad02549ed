#ifndef PIPESTAGE_WORKER_TRANSPORT_CONTRACT_EXCHANGE_H_
#define PIPESTAGE_WORKER_TRANSPORT_CONTRACT_EXCHANGE_H_

// Words in which the communicator contract is written.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "worker/transport/communicator.h"

namespace pipestage {

using Bytes = std::vector<uint8_t>;
using Operations = std::vector<std::unique_ptr<Operation>>;

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

// Bytes that tell which message they are of, and where in it.
Bytes Pattern(size_t size, uint32_t seed);

ConstPart PartOf(const Bytes& bytes);
MutablePart PartOf(Bytes& bytes);

// Waits for all, whatever becomes of them; the first error.
absl::Status WaitAll(Operations& operations);

// Start and wait in one, whichever of the two reports the error.
absl::Status SendNow(Communicator& self, Rank to, const Bytes& bytes);
absl::Status ReceiveNow(Communicator& self, Rank from, Bytes& bytes);

// A failure to start fails the test.
void StartSend(Communicator& self, Rank to, const Bytes& bytes,
               Operations& operations);
void StartReceive(Communicator& self, Rank from, Bytes& bytes,
                  Operations& operations);

// Runs `blocking` in a thread and, once that waits in the kernel, `then` in
// this one. Returns what `blocking` returned and how long after `then` began it
// did.
struct Interrupted {
  absl::Status status;
  absl::Duration after;
};
Interrupted InterruptWith(const std::function<absl::Status()>& blocking,
                          const std::function<void()>& then);

inline auto IsPeerLoss() {
  return ::testing::AnyOf(StatusIs(absl::StatusCode::kUnavailable),
                          StatusIs(absl::StatusCode::kAborted));
}

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_CONTRACT_EXCHANGE_H_
