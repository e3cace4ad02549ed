#ifndef PIPESTAGE_WORKER_TRANSPORT_TCP_CHANNEL_H_
#define PIPESTAGE_WORKER_TRANSPORT_TCP_CHANNEL_H_

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "worker/transport/communicator.h"
#include "worker/transport/unique_fd.h"

namespace pipestage {

// A message being sent or received: its length in 8 bytes, then its parts.
struct TcpTransfer {
  bool is_send = false;
  Rank peer;
  uint64_t length = 0;  // of a receive: as it came
  uint64_t expected_length = 0;
  absl::InlinedVector<MutablePart, 4> parts;  // of a send: only read
  std::shared_ptr<const void> keepalive;
  size_t moved = 0;  // bytes, the length's included

  // Set last, after `status`, when the bytes are no longer touched and the
  // keepalive has been let go of.
  std::atomic<bool> is_done = false;
  absl::Status status;

  void AddPart(void* data, size_t size);
  size_t total() const { return sizeof(length) + expected_length; }
};

using TcpTransfers = std::vector<std::shared_ptr<TcpTransfer>>;

// One connection to a peer and the transfers posted on it. Never blocks.
//
// Thread-compatible: whoever owns it locks.
class TcpChannel {
 public:
  // No connection: the place of the rank itself.
  TcpChannel() = default;
  TcpChannel(UniqueFd fd, Rank peer) : fd_(std::move(fd)), peer_(peer) {}

  void Post(std::shared_ptr<TcpTransfer> transfer);

  // Writes what the socket takes now, and reads what is there into receives
  // that were posted. Transfers whose bytes have all moved are taken out and
  // appended to `moved`. Errors: Unavailable if the peer is gone, Internal if
  // it sent another length than is expected. After either the channel is of no
  // more use.
  absl::Status Write(TcpTransfers& moved);
  absl::Status Read(TcpTransfers& moved);

  // Takes all transfers out.
  void Drain(TcpTransfers& transfers);

  // Makes the peer, and whoever polls, see the end of the connection.
  void Shutdown();

  int fd() const { return fd_.get(); }
  bool is_open() const { return fd_.is_open(); }
  bool has_sends() const { return !sends_.empty(); }
  bool has_receives() const { return !receives_.empty(); }

 private:
  using Queue = std::deque<std::shared_ptr<TcpTransfer>>;

  // Counts `n` more bytes as moved, from the front of the queue.
  absl::Status Advance(Queue& queue, size_t n, TcpTransfers& moved);

  UniqueFd fd_;
  Rank peer_;
  Queue sends_;
  Queue receives_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_TCP_CHANNEL_H_
