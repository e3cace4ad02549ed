#ifndef PIPESTAGE_WORKER_TRANSPORT_GLOO_GROUP_H_
#define PIPESTAGE_WORKER_TRANSPORT_GLOO_GROUP_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "torch/csrc/distributed/c10d/ProcessGroupGloo.hpp"
#include "worker/transport/communicator.h"
#include "worker/transport/staging_pool.h"

namespace pipestage {

// A process group and the operations under way on it, which share it: so that
// End can wake whoever waits, and the connections close when the last one has
// left.
//
// Gloo wakes a waiter by Work::abort only and closes no connection while a Work
// lives; hence this class.
//
// Thread-safe.
class GlooGroup : public std::enable_shared_from_this<GlooGroup> {
 public:
  // Gloo's tags: messages of the caller and of collectives do not see each
  // other.
  enum class Lane : int { kMessages = 0, kCollectives = 1 };

  GlooGroup(c10::intrusive_ptr<c10d::ProcessGroupGloo> process_group,
            absl::Duration timeout);

  absl::StatusOr<std::unique_ptr<Operation>> Send(
      Lane lane, Rank to, absl::Span<const ConstPart> parts,
      std::shared_ptr<const void> keepalive);
  absl::StatusOr<std::unique_ptr<Operation>> Receive(
      Lane lane, Rank from, absl::Span<const MutablePart> parts,
      std::shared_ptr<const void> keepalive);

  // Wakes all waits with `reason`, ends all to come, and closes the
  // connections: when it returns, whichever thread began it, Gloo touches no
  // bytes but those of a wait that has not returned. The first reason counts.
  void End(absl::Status reason);

 private:
  class GlooOperation;

  // Starts what `operation` describes. On error the group has ended.
  absl::StatusOr<std::unique_ptr<Operation>> Start(
      std::unique_ptr<GlooOperation> operation, Lane lane);
  // The group to start an operation on, or why there is none.
  absl::StatusOr<c10::intrusive_ptr<c10d::ProcessGroupGloo>> Open();
  // The three of an operation's life. Enter and BeginWait return why the group
  // has ended; between BeginWait and Leave its works are the waiter's.
  absl::Status Enter(GlooOperation& operation);
  absl::Status BeginWait(GlooOperation& operation);
  void Leave(GlooOperation& operation);
  void AwaitClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the group with `status` if nothing has ended it; returns what has.
  absl::Status Fail(absl::Status status);

  const absl::Duration timeout_;
  StagingPool pool_;
  absl::Mutex mu_;
  // Null after End.
  c10::intrusive_ptr<c10d::ProcessGroupGloo> process_group_
      ABSL_GUARDED_BY(mu_);
  absl::Status ended_ ABSL_GUARDED_BY(mu_);
  // After ended_: the thread that ended it has let go of everything.
  bool is_closed_ ABSL_GUARDED_BY(mu_) = false;
  // Doubly linked list through the operations under way; not owned.
  GlooOperation* first_ ABSL_GUARDED_BY(mu_) = nullptr;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_GLOO_GROUP_H_
