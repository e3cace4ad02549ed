#include "worker/transport/tcp_group.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/transport/transport_arguments.h"

namespace pipestage {
namespace {

using PollEntries = absl::InlinedVector<pollfd, 16>;
using ChannelIndices = absl::InlinedVector<int, 16>;

// A wait is looked over again after this, in case another thread has moved what
// it waits for.
constexpr absl::Duration kLookAgain = absl::Milliseconds(10);

int PollFor(PollEntries& entries, absl::Duration time) {
  const timespec limit = absl::ToTimespec(std::max(time, absl::ZeroDuration()));
  return ppoll(entries.data(), entries.size(), &limit, nullptr);
}

}  // namespace

TcpGroup::TcpGroup(std::vector<UniqueFd> sockets, int size,
                   absl::Duration timeout)
    : size_(size),
      timeout_(timeout),
      ended_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      channels_(sockets.size()) {
  for (size_t i = 0; i < sockets.size(); ++i) {
    channels_[i] = TcpChannel(std::move(sockets[i]), Rank(i % size));
  }
  sender_ = std::thread([this] { RunSender(); });
}

TcpGroup::~TcpGroup() {
  End(absl::CancelledError("the communicator was destroyed"));
  sender_.join();
}

void TcpGroup::Start(Lane lane, const std::shared_ptr<TcpTransfer>& transfer) {
  TcpTransfers moved;
  {
    absl::MutexLock lock(&mu_);
    if (!ended_.ok()) {
      transfer->status = ended_;
      moved.push_back(transfer);
    } else {
      TcpChannel& channel = ChannelOf(lane, transfer->peer);
      channel.Post(transfer);
      if (transfer->is_send) {
        EndIfError(channel.Write(moved), moved);
        if (channel.has_sends()) has_left_over_ = true;
      }
    }
  }
  Settle(moved);
}

absl::Status TcpGroup::Wait(Lane lane, TcpTransfer& transfer) {
  const absl::Time deadline = absl::Now() + timeout_;
  PollEntries entries;
  ChannelIndices channels;
  TcpTransfers moved;
  bool is_first = true;
  while (!transfer.is_done.load(std::memory_order_acquire)) {
    {
      absl::MutexLock lock(&mu_);
      TcpChannel& own = ChannelOf(lane, transfer.peer);
      if (is_first) {
        EndIfError(transfer.is_send ? own.Write(moved) : own.Read(moved),
                   moved);
      } else {
        MoveReady(entries, channels, moved);
      }
      is_first = false;
      entries.assign(1, {ended_event_.get(), POLLIN, 0});
      channels.assign(1, -1);
      for (int i = 0; i < channels_.size(); ++i) {
        TcpChannel& channel = channels_[i];
        short events = channel.has_receives() ? POLLIN : 0;
        if (channel.has_sends()) events |= POLLOUT;
        if (&channel == &own) events |= transfer.is_send ? POLLOUT : POLLIN;
        if (events == 0) continue;
        entries.push_back({channel.fd(), events, 0});
        channels.push_back(i);
      }
    }
    Settle(moved);
    if (transfer.is_done.load(std::memory_order_acquire)) break;
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      End(PeerTimeoutError(transfer.peer,
                           transfer.is_send ? "send to" : "receive from",
                           timeout_));
      continue;  // that, or what came before it, has set the transfer done
    }
    PollFor(entries, std::min(left, kLookAgain));
  }
  if (!transfer.status.ok()) End(transfer.status);
  return transfer.status;
}

void TcpGroup::MoveReady(absl::Span<const pollfd> entries,
                         absl::Span<const int> channels, TcpTransfers& moved) {
  for (size_t i = 0; i < entries.size(); ++i) {
    if (channels[i] < 0 || entries[i].revents == 0 || !ended_.ok()) continue;
    // An error on the connection shows in either; only what is posted is tried.
    TcpChannel& channel = channels_[channels[i]];
    EndIfError(channel.Read(moved), moved);
    if (ended_.ok()) EndIfError(channel.Write(moved), moved);
  }
}

void TcpGroup::EndIfError(absl::Status status, TcpTransfers& moved) {
  if (status.ok() || !ended_.ok()) return;
  ended_ = std::move(status);
  for (TcpChannel& channel : channels_) {
    const size_t before = moved.size();
    channel.Drain(moved);
    for (size_t i = before; i < moved.size(); ++i) moved[i]->status = ended_;
    channel.Shutdown();
  }
  eventfd_write(ended_event_.get(), 1);
}

void TcpGroup::End(absl::Status reason) {
  if (reason.ok()) reason = absl::CancelledError("the communicator was ended");
  TcpTransfers moved;
  {
    absl::MutexLock lock(&mu_);
    EndIfError(std::move(reason), moved);
  }
  Settle(moved);
}

void TcpGroup::Settle(TcpTransfers& moved) {
  for (auto& transfer : moved) {
    transfer->keepalive.reset();
    transfer->is_done.store(true, std::memory_order_release);
  }
  moved.clear();
}

bool TcpGroup::HasSends() const {
  return std::any_of(channels_.begin(), channels_.end(),
                     [](const auto& channel) { return channel.has_sends(); });
}

void TcpGroup::RunSender() {
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return has_left_over_ || !ended_.ok();
  };
  PollEntries entries;
  ChannelIndices channels;
  TcpTransfers moved;
  for (;;) {
    entries.clear();
    channels.clear();
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&has_work));
      if (!ended_.ok()) return;
      has_left_over_ = HasSends();
      entries.push_back({ended_event_.get(), POLLIN, 0});
      channels.push_back(-1);
      for (int i = 0; i < channels_.size(); ++i) {
        if (!channels_[i].has_sends()) continue;
        entries.push_back({channels_[i].fd(), POLLOUT, 0});
        channels.push_back(i);
      }
    }
    if (entries.size() == 1) continue;
    PollFor(entries, kLookAgain);
    {
      absl::MutexLock lock(&mu_);
      for (size_t i = 1; i < entries.size() && ended_.ok(); ++i) {
        if (entries[i].revents == 0) continue;
        EndIfError(channels_[channels[i]].Write(moved), moved);
      }
    }
    Settle(moved);
  }
}

}  // namespace pipestage
