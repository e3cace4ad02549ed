#ifndef PIPESTAGE_WORKER_TRANSPORT_TCP_GROUP_H_
#define PIPESTAGE_WORKER_TRANSPORT_TCP_GROUP_H_

#include <poll.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "worker/transport/communicator.h"
#include "worker/transport/tcp_channel.h"
#include "worker/transport/unique_fd.h"

namespace pipestage {

// The connections of one rank, moved along by the threads that use them: a send
// is written by its caller, a receive read by its waiter. Whoever waits for one
// transfer moves all others too, so two ranks that wait for their sends to each
// other do not wait for ever.
//
// Only what a socket did not take at once is left to a thread of the group's
// own, which otherwise sleeps: the caller may not come back to wait for it.
//
// Thread-safe. Two threads may wait at the same time, but one may then notice
// up to 10 ms late that the other has received its message.
class TcpGroup {
 public:
  // Messages of the caller and those of collectives do not see each other.
  enum class Lane { kMessages = 0, kCollectives = 1 };
  static constexpr int kLanes = 2;

  // `sockets` as ConnectTcpMesh returns them.
  TcpGroup(std::vector<UniqueFd> sockets, int size, absl::Duration timeout);
  // No thread may be in Wait.
  ~TcpGroup();

  // Starts the transfer; sets it done at once if the group has ended.
  void Start(Lane lane, const std::shared_ptr<TcpTransfer>& transfer);

  // Blocks until it is done. Any error ends the group.
  absl::Status Wait(Lane lane, TcpTransfer& transfer);

  // Ends all transfers under way and to come with `reason`, wakes whoever waits
  // and closes the connections. The first reason counts.
  void End(absl::Status reason);

 private:
  TcpChannel& ChannelOf(Lane lane, Rank peer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return channels_[static_cast<int>(lane) * size_ + peer.value()];
  }

  // Lets go of keepalives and sets done; without the lock, for destructors are
  // not ours.
  static void Settle(TcpTransfers& moved);

  // Moves what can be moved over the channels that `entries` tell are ready.
  void MoveReady(absl::Span<const pollfd> entries,
                 absl::Span<const int> channels, TcpTransfers& moved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the group unless `status` is OK.
  void EndIfError(absl::Status status, TcpTransfers& moved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasSends() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The thread that finishes sends.
  void RunSender();

  const int size_;
  const absl::Duration timeout_;
  // Readable once the group has ended.
  const UniqueFd ended_event_;

  absl::Mutex mu_;
  std::vector<TcpChannel> channels_ ABSL_GUARDED_BY(mu_);  // [lane][peer]
  absl::Status ended_ ABSL_GUARDED_BY(mu_);
  bool has_left_over_ ABSL_GUARDED_BY(mu_) = false;
  std::thread sender_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_TCP_GROUP_H_
