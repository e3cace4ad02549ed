#include "coordinator/timers.h"

namespace pipestage {

Timers::Id Timers::At(absl::Time when, std::function<void()> callback) {
  if (when == absl::InfiniteFuture()) return 0;
  absl::MutexLock lock(&mu_);
  const Id id = ++last_id_;
  timers_.emplace(Key(when, id), std::move(callback));
  times_.emplace(id, when);
  if (when < sleeps_until_) changed_.Signal();
  return id;
}

void Timers::Cancel(Id id) {
  std::function<void()> cancelled;  // destroyed without the lock
  absl::MutexLock lock(&mu_);
  const auto time = times_.find(id);
  if (time == times_.end()) return;
  const auto timer = timers_.find(Key(time->second, id));
  cancelled = std::move(timer->second);
  timers_.erase(timer);
  times_.erase(time);
}

bool Timers::TakeDue(absl::Time now, std::function<void()>& callback) {
  absl::MutexLock lock(&mu_);
  if (timers_.empty() || timers_.begin()->first.first > now) return false;
  callback = std::move(timers_.begin()->second);
  times_.erase(timers_.begin()->first.second);
  timers_.erase(timers_.begin());
  return true;
}

void Timers::RunDue() {
  // What callbacks add is left for the next time, or a timer that re-arms
  // itself for now would never end.
  const absl::Time now = clock_->Now();
  std::function<void()> callback;
  while (TakeDue(now, callback)) callback();
}

void Timers::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void Timers::Loop() {
  while (true) {
    RunDue();
    absl::MutexLock lock(&mu_);
    if (stopping_) return;
    const absl::Time next =
        timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first.first;
    const absl::Duration wait = next - clock_->Now();
    if (wait <= absl::ZeroDuration()) continue;
    sleeps_until_ = next;
    changed_.WaitWithTimeout(&mu_, wait);
    sleeps_until_ = absl::InfinitePast();
  }
}

void Timers::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    changed_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace pipestage
