#include "worker/stage_watch.h"

#include <optional>
#include <utility>

namespace pipestage {

StageWatch::StageWatch(Options options, const StageActivity* activity,
                       Clock* clock, OnStuck on_stuck)
    : options_(options),
      activity_(activity),
      clock_(clock),
      on_stuck_(std::move(on_stuck)) {
  if (options_.limit != absl::InfiniteDuration()) {
    thread_ = std::thread([this] { Loop(); });
  }
}

StageWatch::~StageWatch() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void StageWatch::Loop() {
  for (;;) {
    {
      absl::MutexLock lock(&mu_);
      if (mu_.AwaitWithTimeout(absl::Condition(&stopping_),
                               options_.interval)) {
        return;
      }
    }
    const std::optional<StageActivity::Work> work = activity_->current();
    if (!work) continue;
    const absl::Duration elapsed = clock_->Now() - work->since;
    if (elapsed <= options_.limit) continue;
    on_stuck_(*work, elapsed);
    return;
  }
}

}  // namespace pipestage
