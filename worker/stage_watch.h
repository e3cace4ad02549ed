#ifndef PIPESTAGE_WORKER_STAGE_WATCH_H_
#define PIPESTAGE_WORKER_STAGE_WATCH_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "worker/stage_activity.h"

namespace pipestage {

// Notices that a stage does not come back: once, from a thread of its own.
class StageWatch {
 public:
  struct Options {
    // How long one stage may compute on one microbatch. Infinite: for ever.
    absl::Duration limit = absl::InfiniteDuration();
    // How often it is looked at.
    absl::Duration interval = absl::Milliseconds(250);
  };
  using OnStuck =
      std::function<void(const StageActivity::Work&, absl::Duration)>;

  // Neither is owned; both outlive the watch.
  StageWatch(Options options, const StageActivity* activity, Clock* clock,
             OnStuck on_stuck);
  // Waits for `on_stuck` if it is running.
  ~StageWatch();

 private:
  void Loop();

  const Options options_;
  const StageActivity* const activity_;
  Clock* const clock_;
  const OnStuck on_stuck_;
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_STAGE_WATCH_H_
