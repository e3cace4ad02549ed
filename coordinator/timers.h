#ifndef PIPESTAGE_COORDINATOR_TIMERS_H_
#define PIPESTAGE_COORDINATOR_TIMERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace pipestage {

// Calls back at given times: deadlines of calls, ticks of the pipeline.
//
// Thread-safe. Callbacks run in RunDue(), one after the other, without locks
// held; Start() runs it in a thread of its own. A timer that is cancelled
// while its callback runs, or is about to, may still run: callbacks hold what
// they need weakly.
class Timers {
 public:
  // Identifies a timer; 0 = none.
  using Id = int64_t;

  explicit Timers(Clock* clock) : clock_(clock) {}
  ~Timers() { Stop(); }

  // Never calls back if `when` is the infinite future, and then returns 0.
  Id At(absl::Time when, std::function<void()> callback);
  void Cancel(Id id);

  // Runs what is due now.
  void RunDue();

  void Start();
  // Waits for the callback that is running.
  void Stop();

 private:
  using Key = std::pair<absl::Time, Id>;

  void Loop();
  bool TakeDue(absl::Time now, std::function<void()>& callback);

  Clock* const clock_;
  absl::Mutex mu_;
  std::map<Key, std::function<void()>> timers_ ABSL_GUARDED_BY(mu_);
  std::map<Id, absl::Time> times_ ABSL_GUARDED_BY(mu_);
  Id last_id_ ABSL_GUARDED_BY(mu_) = 0;
  // Until when the thread sleeps: only an earlier timer has to wake it.
  absl::Time sleeps_until_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::CondVar changed_;
  std::thread thread_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_TIMERS_H_
