#ifndef PIPESTAGE_COORDINATOR_MEMBERSHIP_H_
#define PIPESTAGE_COORDINATOR_MEMBERSHIP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "proto/worker_link.pb.h"

namespace pipestage {

// One stream of one worker, from Hello to its end. Never reused.
using AttachmentId = StrongId<struct AttachmentIdTag, int64_t>;

// Who belongs to the pipeline, and which generation of the communicator they
// form: a state machine without threads, clock or network. Each event changes
// the state and says in `Effects` what is to be sent and closed.
//
// A generation is waited for, formed, ready, and ends with the first member
// lost or the first failure of the communicator; the next forms by itself.
//
// Thread-compatible.
class Membership {
 public:
  struct Options {
    int num_ranks = 1;
    Epoch epoch;
    absl::Duration ping_interval = absl::Seconds(1);
    // A worker silent for longer than this is lost.
    absl::Duration worker_timeout = absl::Seconds(10);
    // A worker silent for longer than this may be replaced by a new
    // incarnation.
    absl::Duration replace_after = absl::Seconds(3);
    absl::Duration form_timeout = absl::Seconds(30);
    // Before the next generation, after one that failed; doubles with each
    // failure.
    absl::Duration first_backoff = absl::Milliseconds(100);
    absl::Duration max_backoff = absl::Seconds(5);
    // When a member reports a failed communicator, a lost neighbour is often
    // the cause and is noticed a moment later: wait so long for it.
    absl::Duration cause_grace = absl::Milliseconds(250);
    // A call that was begun so long ago has been sent to all workers, or its
    // generation has ended: one that a worker does not know then is forgotten.
    absl::Duration dispatch_time = absl::Seconds(5);
    // Draws the rendezvous prefix of a generation; must not repeat.
    std::function<std::string()> draw_store_prefix;
  };

  enum class State { kWaiting, kForming, kReady };

  struct Member {
    AttachmentId attachment;
    Rank rank;
    std::string name;
    Incarnation incarnation;
    std::string device;
    std::vector<std::string> backends;
    absl::Time attached_at;
    absl::Time last_heard;
    int64_t resident_bytes = 0;
    absl::Duration round_trip;  // of the last ping
    bool formed = false;        // in the current generation
    // It goes once no call needs it; until then no new ones are begun.
    bool leaving = false;
    bool dismissed = false;  // it has been told that it may
    // As it last reported.
    std::optional<v1::Computing> computing;
  };

  struct Effects {
    std::vector<std::pair<AttachmentId, v1::CoordinatorMessage>> messages;
    std::vector<std::pair<AttachmentId, absl::Status>> closes;
    bool changed = false;  // state, generation or members
  };

  explicit Membership(Options options);

  // Takes a worker in and assigns its rank: the one it asks for, or the lowest
  // free.
  //
  // Errors:
  //   FailedPrecondition: it speaks another version of the protocol.
  //   InvalidArgument: the rank it asks for does not exist.
  //   AlreadyExists: a live worker has that rank.
  //   ResourceExhausted: all ranks are taken.
  absl::StatusOr<Rank> Attach(AttachmentId attachment, const v1::Hello& hello,
                              absl::Time now, Effects& effects);
  // The stream of an attachment has ended. Unknown ones are passed over, as in
  // every event below: they belong to the past.
  void Detach(AttachmentId attachment, const absl::Status& why, absl::Time now,
              Effects& effects);
  void Heard(AttachmentId attachment, absl::Time now);
  void OnPong(AttachmentId attachment, const v1::Pong& pong, absl::Time now);
  void OnLeaving(AttachmentId attachment, const v1::Leaving& leaving,
                 absl::Time now, Effects& effects);
  // No call is under way: those that are leaving may go.
  void DismissLeaving(Effects& effects);
  // All are to go, and nothing is formed any more.
  void DismissAll(const std::string& reason, Effects& effects);
  void OnFormed(AttachmentId attachment, const v1::CommunicatorFormed& formed,
                absl::Time now, Effects& effects);
  void OnFailed(AttachmentId attachment, Generation generation,
                const absl::Status& error, absl::Time now, Effects& effects);
  // Time passes: pings, lost workers, formations that take too long, the next
  // try.
  void Tick(absl::Time now, Effects& effects);

  State state() const { return state_; }
  Generation generation() const { return generation_; }
  int num_ranks() const { return options_.num_ranks; }
  // By rank; unset where a worker is missing.
  const std::vector<std::optional<Member>>& members() const { return members_; }
  const Member* Find(AttachmentId attachment) const;
  // Calls begun before this had been sent to workers before the ping that
  // `pong` answers. The infinite past if a later ping was sent since.
  absl::Time SentBefore(const v1::Pong& pong) const {
    return pong.sequence() == ping_sequence_
               ? pinged_at_ - options_.dispatch_time
               : absl::InfinitePast();
  }
  // Describes those that are leaving; empty if none is.
  std::string Leaving() const;
  const std::string& store_prefix() const { return store_prefix_; }
  // Of the current generation; empty before the first.
  const std::string& backend() const { return backend_; }
  // Why the last generation (or the last try to form one) ended; OK if none
  // has.
  const absl::Status& last_failure() const { return last_failure_; }

 private:
  absl::StatusOr<Rank> ChooseRank(const v1::Hello& hello, absl::Time now);
  Member* FindMutable(AttachmentId attachment);
  void Remove(Rank rank, const absl::Status& why, absl::Time now,
              Effects& effects);
  void EndGeneration(absl::Status cause, absl::Time now, bool back_off,
                     Effects& effects);
  void FormWhenPossible(absl::Time now, Effects& effects);
  void Dismiss(Member& member, const std::string& reason, Effects& effects);
  void SendPings(absl::Time now, Effects& effects);
  void DropSilent(absl::Time now, Effects& effects);
  std::optional<std::string> CommonBackend() const;
  std::string MissingFormed() const;

  const Options options_;
  State state_ = State::kWaiting;
  Generation generation_;
  std::vector<std::optional<Member>> members_;
  std::string store_prefix_;
  std::string backend_;
  absl::Status last_failure_;

  absl::Time form_deadline_ = absl::InfiniteFuture();
  absl::Time not_before_ = absl::InfinitePast();
  absl::Time ready_since_ = absl::InfiniteFuture();
  absl::Duration backoff_;
  absl::Time next_ping_ = absl::InfinitePast();
  int64_t ping_sequence_ = 0;
  absl::Time pinged_at_;

  // A reported failure whose cause is still waited for.
  std::optional<absl::Status> suspected_;
  absl::Time suspected_since_;
};

// "worker w1 (rank 1)".
std::string DescribeWorker(const std::string& name, Rank rank);

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_MEMBERSHIP_H_
