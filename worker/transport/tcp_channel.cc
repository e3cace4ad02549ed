#include "worker/transport/tcp_channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/transport/transport_arguments.h"

namespace pipestage {
namespace {

// The next bytes of several transfers, for one system call.
class Pieces {
 public:
  // False when there is no room for more.
  bool Add(TcpTransfer& transfer) {
    size_t skip = transfer.moved;
    if (!AddPiece(&transfer.length, sizeof(transfer.length), skip)) {
      return false;
    }
    for (const MutablePart& part : transfer.parts) {
      if (!AddPiece(part.data, part.size, skip)) return false;
    }
    return true;
  }

  msghdr Message() {
    msghdr message = {};
    message.msg_iov = pieces_.data();
    message.msg_iovlen = count_;
    return message;
  }
  size_t bytes() const { return bytes_; }

 private:
  // Enough for a few messages; the kernel copies more than this at its own
  // pace.
  static constexpr size_t kMaxPieces = 32;

  bool AddPiece(void* data, size_t size, size_t& skip) {
    if (skip >= size) {
      skip -= size;
      return true;
    }
    if (count_ == kMaxPieces) return false;
    pieces_[count_++] = {static_cast<char*>(data) + skip, size - skip};
    bytes_ += size - skip;
    skip = 0;
    return true;
  }

  std::array<iovec, kMaxPieces> pieces_;
  size_t count_ = 0;
  size_t bytes_ = 0;
};

}  // namespace

void TcpTransfer::AddPart(void* data, size_t size) {
  if (size == 0) return;
  parts.push_back({data, size});
  expected_length += size;
}

void TcpChannel::Post(std::shared_ptr<TcpTransfer> transfer) {
  (transfer->is_send ? sends_ : receives_).push_back(std::move(transfer));
}

absl::Status TcpChannel::Write(TcpTransfers& moved) {
  while (!sends_.empty()) {
    Pieces pieces;
    for (auto& transfer : sends_) {
      if (!pieces.Add(*transfer)) break;
    }
    const msghdr message = pieces.Message();
    const ssize_t n = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return absl::OkStatus();
      return PeerLostError(peer_, std::strerror(errno));
    }
    PIPESTAGE_RETURN_IF_ERROR(Advance(sends_, n, moved));
    if (n < pieces.bytes()) return absl::OkStatus();  // the socket is full
  }
  return absl::OkStatus();
}

absl::Status TcpChannel::Read(TcpTransfers& moved) {
  while (!receives_.empty()) {
    Pieces pieces;
    for (auto& transfer : receives_) {
      if (!pieces.Add(*transfer)) break;
    }
    msghdr message = pieces.Message();
    const ssize_t n = recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return absl::OkStatus();
      return PeerLostError(peer_, std::strerror(errno));
    }
    if (n == 0) return PeerLostError(peer_, "it closed the connection");
    PIPESTAGE_RETURN_IF_ERROR(Advance(receives_, n, moved));
    if (n < pieces.bytes()) return absl::OkStatus();  // no more is there
  }
  return absl::OkStatus();
}

absl::Status TcpChannel::Advance(Queue& queue, size_t n, TcpTransfers& moved) {
  while (n > 0) {
    TcpTransfer& transfer = *queue.front();
    const size_t step = std::min(n, transfer.total() - transfer.moved);
    transfer.moved += step;
    n -= step;
    if (transfer.moved >= sizeof(transfer.length) &&
        transfer.length != transfer.expected_length) {
      return absl::InternalError(absl::StrCat(
          "rank ", peer_.value(), " sent ", transfer.length, " bytes where ",
          transfer.expected_length, " are expected: the pair is out of step"));
    }
    if (transfer.moved < transfer.total()) break;
    moved.push_back(std::move(queue.front()));
    queue.pop_front();
  }
  return absl::OkStatus();
}

void TcpChannel::Drain(TcpTransfers& transfers) {
  for (Queue* queue : {&sends_, &receives_}) {
    for (auto& transfer : *queue) transfers.push_back(std::move(transfer));
    queue->clear();
  }
}

void TcpChannel::Shutdown() {
  if (fd_.is_open()) shutdown(fd_.get(), SHUT_RDWR);
}

}  // namespace pipestage
