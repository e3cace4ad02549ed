#ifndef PIPESTAGE_WORKER_TRANSPORT_INPROC_HUB_H_
#define PIPESTAGE_WORKER_TRANSPORT_INPROC_HUB_H_

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "worker/transport/communicator.h"

namespace pipestage {

// Where the ranks of an in-process group meet: queues of sends and receives per
// ordered pair. Whoever comes second to a pair copies the bytes, in its thread.
//
// Thread-safe. Never copies, nor lets go of a keepalive, while holding its
// lock.
class InprocHub {
 public:
  // Messages of the caller and those of collectives do not see each other.
  enum class Lane { kMessages = 0, kCollectives = 1 };

  // One end of a message. Made by the hub, waited for once.
  class Transfer;

  explicit InprocHub(int size);

  // Enters `rank` and blocks until all are there. DeadlineExceeded naming how
  // many are; the rank then has left again.
  absl::Status Join(Rank rank, absl::Duration timeout);

  std::shared_ptr<Transfer> PostSend(Lane lane, Rank self, Rank to,
                                     absl::Span<const ConstPart> parts,
                                     std::shared_ptr<const void> keepalive);
  std::shared_ptr<Transfer> PostReceive(Lane lane, Rank self, Rank from,
                                        absl::Span<const MutablePart> parts,
                                        std::shared_ptr<const void> keepalive);

  // Blocks until `transfer` is done. Any error ends its rank, see End.
  absl::Status Wait(Transfer& transfer, absl::Duration timeout);

  // `rank` leaves: what it has under way and posts later ends with `reason`,
  // what others have or post to it with Unavailable. The first reason counts.
  void End(Rank rank, const absl::Status& reason);

 private:
  using Queue = std::deque<std::shared_ptr<Transfer>>;
  // Let go of when the lock is no longer held: destructors are not ours.
  using Garbage = std::vector<std::shared_ptr<const void>>;

  // Ends of messages that wait for the other end; one of the two is empty.
  struct Pair {
    Queue sends;
    Queue receives;
  };

  Pair& PairOf(Lane lane, Rank from, Rank to)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Post(Lane lane, const std::shared_ptr<Transfer>& transfer);
  // Takes the other end of `transfer` if it waits, else makes `transfer` wait.
  std::shared_ptr<Transfer> MatchOrEnqueue(
      Lane lane, const std::shared_ptr<Transfer>& transfer);
  // OK unless one of the transfer's ranks has left.
  absl::Status EndedStatus(const Transfer& transfer) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Finish(Transfer& transfer, absl::Status status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndLocked(Rank rank, const absl::Status& reason, Garbage& garbage)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndQueue(Queue& queue, Garbage& garbage)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int size_;
  mutable absl::Mutex mu_;
  int joined_ ABSL_GUARDED_BY(mu_) = 0;
  // Per rank: OK while it is there.
  std::vector<absl::Status> ended_ ABSL_GUARDED_BY(mu_);
  // [lane][from * size + to]
  std::array<std::vector<Pair>, 2> pairs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_INPROC_HUB_H_
