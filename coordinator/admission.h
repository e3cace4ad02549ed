#ifndef PIPESTAGE_COORDINATOR_ADMISSION_H_
#define PIPESTAGE_COORDINATOR_ADMISSION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace pipestage {

// Bounds what the coordinator takes on: calls by number, waiting and running,
// and all of them by bytes. Full means an early refusal, never growth.
//
// A call first reserves its bytes, then enters for a place to run. Places go to
// calls in the order in which they entered.
//
// Thread-safe. Callbacks run without the lock held, each exactly once, in the
// thread whose call made them due, or in one that is handing out places then.
class Admission {
 public:
  struct Options {
    int max_waiting = 64;
    int max_running = 4;
    int64_t max_bytes = int64_t{1} << 30;
    Clock* clock = nullptr;  // not owned
  };

  // Bytes counted as taken while this lives.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Admission* admission, int64_t bytes)
        : admission_(admission), bytes_(bytes) {}
    Reservation(Reservation&& other) noexcept { *this = std::move(other); }
    Reservation& operator=(Reservation&& other) noexcept;
    ~Reservation() { Release(); }

    void Release();

   private:
    Admission* admission_ = nullptr;
    int64_t bytes_ = 0;
  };

  // A place among the running calls, given back when this goes.
  class Place {
   public:
    Place() = default;
    explicit Place(Admission* admission) : admission_(admission) {}
    Place(Place&& other) noexcept { *this = std::move(other); }
    Place& operator=(Place&& other) noexcept;
    ~Place() { Release(); }

    // May run the callback of a call that waited.
    void Release();

   private:
    Admission* admission_ = nullptr;
  };

  struct Counts {
    int waiting = 0;
    int running = 0;
    int64_t bytes = 0;
  };

  // A place, or why there is none.
  using Admitted = std::function<void(absl::StatusOr<Place>)>;

  // Names a call that waits; 0 = none does.
  using WaitId = int64_t;

  explicit Admission(Options options) : options_(options) {}

  // ResourceExhausted (QUEUE_FULL) when the calls admitted hold too many bytes
  // already; ResourceExhausted (MESSAGE_TOO_LARGE) when these alone are too
  // many.
  absl::StatusOr<Reservation> Reserve(int64_t bytes);

  // Calls `admitted` at once if there is room, else when there is. It gets an
  // error
  //   ResourceExhausted (QUEUE_FULL): at once; too many calls wait.
  //   DeadlineExceeded: `deadline` passed while it waited.
  //   or the one of Leave(), CloseQueue() or ExpelWaiting().
  WaitId Enter(absl::Time deadline, Admitted admitted);

  // Ends the wait of a call with `why`. Nothing if it does not wait any more.
  void Leave(WaitId id, absl::Status why);

  // Ends the waits whose deadline has passed.
  void ExpireWaits();

  // From now on every Enter is refused with `why`; those who wait go on
  // waiting.
  void CloseQueue(absl::Status why);
  // Ends all waits with `why`.
  void ExpelWaiting(const absl::Status& why);

  Counts counts() const;
  const Options& options() const { return options_; }

 private:
  struct Waiting {
    WaitId id;
    absl::Time deadline;
    Admitted admitted;
  };

  void ReturnBytes(int64_t bytes);
  void ReturnPlace() ABSL_LOCKS_EXCLUDED(mu_);
  // Gives a returned place to the next call that waits; false if there is none.
  bool HandOutOne() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status QueueFull() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  mutable absl::Mutex mu_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  int places_returned_ ABSL_GUARDED_BY(mu_) = 0;   // and not handed out yet
  bool handing_out_ ABSL_GUARDED_BY(mu_) = false;  // some thread is at it
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  WaitId last_id_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status closed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_ADMISSION_H_
