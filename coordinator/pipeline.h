#ifndef PIPESTAGE_COORDINATOR_PIPELINE_H_
#define PIPESTAGE_COORDINATOR_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/membership.h"
#include "coordinator/rendezvous_store.h"
#include "coordinator/worker_connection.h"
#include "proto/status_service.pb.h"
#include "proto/worker_link.pb.h"

namespace pipestage {

// One stream of one worker. Immutable.
struct Attachment {
  AttachmentId id;
  Rank rank;
  std::string name;
  Incarnation incarnation;
  std::shared_ptr<WorkerConnection> connection;
};

// What the pipeline was at one moment. Immutable; a later one has a higher
// version.
struct PipelineView {
  int64_t version = 0;
  Membership::State state = Membership::State::kWaiting;
  Generation generation;
  // By rank; null where a worker is missing.
  std::vector<std::shared_ptr<const Attachment>> members;
  absl::Status last_failure;
  // Describes workers that go as soon as no call is under way; empty: none.
  std::string leaving;

  // Whether calls may begin.
  bool ready() const {
    return state == Membership::State::kReady && leaving.empty();
  }
  int num_ranks() const { return static_cast<int>(members.size()); }
  // Whether this generation can still execute calls.
  bool Serves(Generation call_generation) const {
    return state == Membership::State::kReady && generation == call_generation;
  }
};

// OK if the ranks [0, num_ranks) are all attached.
// FailedPrecondition (WORKERS_MISSING) says how many are missing, and which.
absl::Status CheckAttached(const PipelineView& view, int num_ranks);
// OK if calls can be dispatched. Else as above, or Unavailable while the
// workers that are there form a communicator.
absl::Status CheckReady(const PipelineView& view);

// Who wants to know what happens on the worker links. Called without locks
// held, in the thread that read the message; views may come out of order, and
// each has its version.
class WorkerEvents {
 public:
  virtual ~WorkerEvents() = default;

  virtual void OnViewChanged(
      const std::shared_ptr<const PipelineView>& view) = 0;
  virtual void OnStagesLoaded(const Attachment& from,
                              const v1::StagesLoaded& loaded) = 0;
  // CallFailed, LossReport, OutputData or CallDone. May be consumed.
  virtual void OnCallMessage(const Attachment& from,
                             v1::WorkerMessage& message) = 0;
  // The worker says that it has no calls: those that were begun before `since`
  // it has done, or forgotten.
  virtual void OnIdle(const Attachment& from, absl::Time since) = 0;
};

// The workers attached to this coordinator: Membership and the rendezvous
// store, with their lock, clock and connections. Workers' messages come in here
// and go to whom they concern.
//
// Thread-safe.
class Pipeline {
 public:
  // `clock` and `events` are not owned and outlive the pipeline.
  Pipeline(Membership::Options options, Clock* clock, WorkerEvents* events);

  // A worker said Hello. Errors: those of Membership::Attach.
  absl::StatusOr<std::shared_ptr<const Attachment>> Attach(
      const v1::Hello& hello, std::shared_ptr<WorkerConnection> connection)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnMessage(const Attachment& from, v1::WorkerMessage& message)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Detach(const Attachment& attachment, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Call often (see Membership::Options for how finely time matters).
  void Tick() ABSL_LOCKS_EXCLUDED(mu_);

  // A call reported that its communicator failed: so has the generation.
  void ReportFailure(const Attachment& from, Generation generation,
                     const absl::Status& error) ABSL_LOCKS_EXCLUDED(mu_);

  // Lets workers go that wait for the end of all calls. Call when there are
  // none and the view says that some are leaving.
  void DismissLeaving() ABSL_LOCKS_EXCLUDED(mu_);

  // Tells every worker to finish and exit.
  void ShutDownWorkers(const std::string& reason) ABSL_LOCKS_EXCLUDED(mu_);

  std::shared_ptr<const PipelineView> view() const ABSL_LOCKS_EXCLUDED(mu_);
  // Fills state, generation, workers and last_failure.
  void FillStatus(v1::Status& status) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Sends and closes what `effects` say; the new view if there is one.
  std::shared_ptr<const PipelineView> Apply(Membership::Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<const PipelineView> MakeView()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Announce(const std::shared_ptr<const PipelineView>& view)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnStoreSet(const Attachment& from, v1::StoreSet& set,
                  Membership::Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnStoreGet(const Attachment& from, const v1::StoreGet& get,
                  Membership::Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnStoreError(const Attachment& from, const absl::Status& error,
                    Membership::Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // If the worker answers a ping and says that it has no calls: a time before
  // which begun calls had been sent to it.
  std::optional<absl::Time> IdleSince(const v1::WorkerMessage& message) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Changes that concern membership alone. False if `message` is no such thing.
  bool UpdateMembership(const Attachment& from, v1::WorkerMessage& message,
                        Membership::Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock* const clock_;
  WorkerEvents* const events_;
  mutable absl::Mutex mu_;
  Membership membership_ ABSL_GUARDED_BY(mu_);
  RendezvousStore store_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<AttachmentId, std::shared_ptr<const Attachment>>
      attachments_ ABSL_GUARDED_BY(mu_);
  AttachmentId last_attachment_ ABSL_GUARDED_BY(mu_);
  Generation store_generation_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const PipelineView> view_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_PIPELINE_H_
