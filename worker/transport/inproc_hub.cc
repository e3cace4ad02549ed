#include "worker/transport/inproc_hub.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/transport/transport_arguments.h"

namespace pipestage {

// State is guarded by the hub's lock, the parts belong to the posting thread
// until the transfer is matched and to the copying thread until it is done.
class InprocHub::Transfer {
 public:
  enum class State { kPosted, kCopying, kDone };

  bool is_send = false;
  Rank self;
  Rank peer;
  absl::InlinedVector<MutablePart, 4> parts;  // of a send: only read
  std::shared_ptr<const void> keepalive;
  State state = State::kPosted;
  absl::Status status;

  Rank from() const { return is_send ? self : peer; }
  Rank to() const { return is_send ? peer : self; }
  size_t bytes() const { return TotalBytes(absl::MakeConstSpan(parts)); }
};

namespace {

using Parts = absl::InlinedVector<MutablePart, 4>;

// Copies a message whose ends agree on the total, but not always on the parts.
void CopyParts(const Parts& from, const Parts& to) {
  size_t out = 0, out_offset = 0;
  for (const MutablePart& part : from) {
    size_t offset = 0;
    while (offset < part.size) {
      while (out_offset == to[out].size) ++out, out_offset = 0;
      const size_t n = std::min(part.size - offset, to[out].size - out_offset);
      std::memcpy(static_cast<std::byte*>(to[out].data) + out_offset,
                  static_cast<const std::byte*>(part.data) + offset, n);
      offset += n;
      out_offset += n;
    }
  }
}

}  // namespace

InprocHub::InprocHub(int size) : size_(size), ended_(size) {
  for (auto& lane : pairs_) lane.resize(size * size);
}

absl::Status InprocHub::Join(Rank rank, absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  ++joined_;
  const auto all = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return joined_ == size_;
  };
  if (mu_.AwaitWithTimeout(absl::Condition(&all), timeout)) {
    return absl::OkStatus();
  }
  --joined_;
  return absl::DeadlineExceededError(
      absl::StrCat("rank ", rank.value(), " met ", joined_, " of ", size_ - 1,
                   " peers within ", absl::FormatDuration(timeout)));
}

std::shared_ptr<InprocHub::Transfer> InprocHub::PostSend(
    Lane lane, Rank self, Rank to, absl::Span<const ConstPart> parts,
    std::shared_ptr<const void> keepalive) {
  auto transfer = std::make_shared<Transfer>();
  transfer->is_send = true;
  transfer->self = self;
  transfer->peer = to;
  transfer->keepalive = std::move(keepalive);
  for (const ConstPart& part : parts) {
    transfer->parts.push_back({const_cast<void*>(part.data), part.size});
  }
  Post(lane, transfer);
  return transfer;
}

std::shared_ptr<InprocHub::Transfer> InprocHub::PostReceive(
    Lane lane, Rank self, Rank from, absl::Span<const MutablePart> parts,
    std::shared_ptr<const void> keepalive) {
  auto transfer = std::make_shared<Transfer>();
  transfer->self = self;
  transfer->peer = from;
  transfer->keepalive = std::move(keepalive);
  transfer->parts.assign(parts.begin(), parts.end());
  Post(lane, transfer);
  return transfer;
}

void InprocHub::Post(Lane lane, const std::shared_ptr<Transfer>& transfer) {
  const std::shared_ptr<Transfer> match = MatchOrEnqueue(lane, transfer);
  if (match == nullptr) return;
  Transfer& send = transfer->is_send ? *transfer : *match;
  Transfer& receive = transfer->is_send ? *match : *transfer;
  absl::Status status;
  if (send.bytes() == receive.bytes()) {
    CopyParts(send.parts, receive.parts);
  } else {
    status = absl::InternalError(
        absl::StrCat("rank ", send.self.value(), " sent ", send.bytes(),
                     " bytes where rank ", receive.self.value(), " expects ",
                     receive.bytes()));
  }
  send.keepalive.reset();
  receive.keepalive.reset();
  absl::MutexLock lock(&mu_);
  Finish(send, status);
  Finish(receive, status);
}

std::shared_ptr<InprocHub::Transfer> InprocHub::MatchOrEnqueue(
    Lane lane, const std::shared_ptr<Transfer>& transfer) {
  absl::MutexLock lock(&mu_);
  if (absl::Status ended = EndedStatus(*transfer); !ended.ok()) {
    Finish(*transfer, std::move(ended));
    return nullptr;
  }
  Pair& pair = PairOf(lane, transfer->from(), transfer->to());
  Queue& others = transfer->is_send ? pair.receives : pair.sends;
  if (others.empty()) {
    (transfer->is_send ? pair.sends : pair.receives).push_back(transfer);
    return nullptr;
  }
  std::shared_ptr<Transfer> match = std::move(others.front());
  others.pop_front();
  transfer->state = match->state = Transfer::State::kCopying;
  return match;
}

absl::Status InprocHub::Wait(Transfer& transfer, absl::Duration timeout) {
  Garbage garbage;
  absl::MutexLock lock(&mu_);
  const auto done = [&transfer] {
    return transfer.state == Transfer::State::kDone;
  };
  if (!mu_.AwaitWithTimeout(absl::Condition(&done), timeout)) {
    if (transfer.state == Transfer::State::kPosted) {
      EndLocked(transfer.self,
                PeerTimeoutError(transfer.peer,
                                 transfer.is_send ? "send to" : "receive from",
                                 timeout),
                garbage);
    }
    // Its bytes may not be given up while the peer copies them.
    mu_.Await(absl::Condition(&done));
  }
  garbage.push_back(std::move(transfer.keepalive));
  if (!transfer.status.ok()) {
    EndLocked(transfer.self, transfer.status, garbage);
  }
  return transfer.status;
}

void InprocHub::End(Rank rank, const absl::Status& reason) {
  Garbage garbage;
  absl::MutexLock lock(&mu_);
  EndLocked(rank, reason, garbage);
}

InprocHub::Pair& InprocHub::PairOf(Lane lane, Rank from, Rank to) {
  return pairs_[static_cast<int>(lane)][from.value() * size_ + to.value()];
}

absl::Status InprocHub::EndedStatus(const Transfer& transfer) const {
  const absl::Status& self = ended_[transfer.self.value()];
  if (!self.ok()) return self;
  const absl::Status& peer = ended_[transfer.peer.value()];
  if (!peer.ok()) return PeerLostError(transfer.peer, peer.message());
  return absl::OkStatus();
}

void InprocHub::Finish(Transfer& transfer, absl::Status status) {
  transfer.state = Transfer::State::kDone;
  transfer.status = std::move(status);
}

void InprocHub::EndLocked(Rank rank, const absl::Status& reason,
                          Garbage& garbage) {
  if (!ended_[rank.value()].ok()) return;
  ended_[rank.value()] =
      reason.ok() ? absl::CancelledError("the communicator was ended") : reason;
  for (Lane lane : {Lane::kMessages, Lane::kCollectives}) {
    for (int peer = 0; peer < size_; ++peer) {
      for (Pair* pair :
           {&PairOf(lane, rank, Rank(peer)), &PairOf(lane, Rank(peer), rank)}) {
        EndQueue(pair->sends, garbage);
        EndQueue(pair->receives, garbage);
      }
    }
  }
}

void InprocHub::EndQueue(Queue& queue, Garbage& garbage) {
  for (auto& transfer : queue) {
    Finish(*transfer, EndedStatus(*transfer));
    garbage.push_back(std::move(transfer));
  }
  queue.clear();
}

}  // namespace pipestage
