#ifndef PIPESTAGE_WORKER_FEED_WINDOW_H_
#define PIPESTAGE_WORKER_FEED_WINDOW_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace pipestage {

// How far ahead of its calls a worker lets itself be fed.
//
// Bytes are counted from the beginning of an attachment. The coordinator feeds
// while what it has sent is below the limit that it was told last, so it goes
// beyond by one message at the most; at first the limit is the window. As calls
// take what was fed, the limit rises to what was taken and the window, and is
// told each time it has risen by a quarter of the window: messages grow with
// bytes, not with microbatches.
//
// Bytes count as taken when a stage uses them first, although a later stage of
// the same worker may hold them longer. A call that waits for bytes that the
// limit keeps back (they are fed in another order than it takes them) is given
// more: the window bounds memory, it never stops a call.
//
// Thread-safe. One object for each attachment.
class FeedWindow {
 public:
  // Tells the coordinator. May be called by any thread, never with a lock held;
  // of limits told at the same time the larger one holds.
  using TellFn = std::function<void(int64_t limit)>;

  FeedWindow(int64_t window_bytes, TellFn tell);

  // One that never tells: for calls that no coordinator feeds.
  static std::shared_ptr<FeedWindow> Unbounded();

  void OnReceived(int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);
  // Bytes received are used, or of no use.
  void OnTaken(int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);
  // A call waits and nothing that has come is of help.
  void OnStarving() ABSL_LOCKS_EXCLUDED(mu_);

  // The attachment is over: nothing is told any more, but for what a thread is
  // telling now. (If that reached the next attachment, more would be fed there
  // than the window; nothing else.)
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Raises the limit if that is worth a message, and tells.
  void Raise(int64_t limit, int64_t least_rise) ABSL_LOCKS_EXCLUDED(mu_);

  const int64_t window_bytes_;
  const TellFn tell_;

  absl::Mutex mu_;
  int64_t received_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t taken_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t limit_ ABSL_GUARDED_BY(mu_);  // as told
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_FEED_WINDOW_H_
