#include "worker/feed_window.h"

#include <algorithm>
#include <utility>

namespace pipestage {

FeedWindow::FeedWindow(int64_t window_bytes, TellFn tell)
    : window_bytes_(std::max<int64_t>(window_bytes, 1)),
      tell_(std::move(tell)),
      limit_(window_bytes_) {}

std::shared_ptr<FeedWindow> FeedWindow::Unbounded() {
  return std::make_shared<FeedWindow>(INT64_MAX / 2, [](int64_t) {});
}

void FeedWindow::OnReceived(int64_t bytes) {
  absl::MutexLock lock(&mu_);
  received_ += bytes;
}

void FeedWindow::OnTaken(int64_t bytes) {
  int64_t limit;
  {
    absl::MutexLock lock(&mu_);
    taken_ += bytes;
    limit = taken_ + window_bytes_;
  }
  Raise(limit, /*least_rise=*/std::max<int64_t>(window_bytes_ / 4, 1));
}

void FeedWindow::OnStarving() {
  int64_t limit;
  {
    absl::MutexLock lock(&mu_);
    // Below it the coordinator may go on: what is missing is on its way.
    if (received_ < limit_) return;
    limit = received_ + std::max<int64_t>(window_bytes_ / 4, 1);
  }
  Raise(limit, /*least_rise=*/1);
}

void FeedWindow::Close() {
  absl::MutexLock lock(&mu_);
  closed_ = true;
}

void FeedWindow::Raise(int64_t limit, int64_t least_rise) {
  {
    absl::MutexLock lock(&mu_);
    if (closed_ || limit - limit_ < least_rise) return;
    limit_ = limit;
  }
  tell_(limit);
}

}  // namespace pipestage
