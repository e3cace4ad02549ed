#ifndef PIPESTAGE_WORKER_CALL_INBOX_H_
#define PIPESTAGE_WORKER_CALL_INBOX_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "base/ids.h"
#include "proto/worker_link.pb.h"
#include "tensor/buffer.h"
#include "tensor/microbatches.h"
#include "worker/feed_window.h"

namespace pipestage {

// What a worker is told about one call while the call waits or runs: its
// arguments' bytes, and that it should stop. The link's thread puts in, the
// compute thread takes out.
//
// Feeds may come before or after the call has begun. Bytes are not copied: what
// is taken is a view into the message that brought it, and the message is freed
// when all its views are. The window hears what is taken.
//
// AddFeed, Cancel and Abort: any thread. The rest: the compute thread, Expect
// first.
class CallInbox {
 public:
  enum class State {
    kLive,
    kCancelled,  // compute no more, but go through the plan
    kAborted,    // the communicator is gone: stop at once
  };

  // What the call takes of one argument on this worker.
  struct Argument {
    std::string name;
    // How many stages here take it: each of them once for every microbatch.
    int uses = 0;
    bool replicated = false;
    int64_t larger_bytes = 0;   // of a microbatch with max_rows()
    int64_t smaller_bytes = 0;  // of one with a row less
  };

  // `window`: of the attachment that brings the feeds.
  CallInbox(CallId call, std::shared_ptr<FeedWindow> window)
      : call_(call), window_(std::move(window)) {}
  ~CallInbox();
  CallInbox(const CallInbox&) = delete;
  CallInbox& operator=(const CallInbox&) = delete;

  CallId call() const { return call_; }

  // The window has counted its bytes as received.
  void AddFeed(v1::FeedData feed);
  // The first of these counts, except that Abort overrules Cancel.
  void Cancel(absl::string_view reason);
  void Abort(absl::Status reason);

  State state() const { return state_.load(std::memory_order_acquire); }
  // Why it was cancelled or aborted; OK while live.
  absl::Status reason() const;

  // Says what the call takes; feeds are checked against it from now on.
  void Expect(std::vector<Argument> arguments, Microbatches microbatches);

  // The bytes of microbatch `m` of an argument with `uses` > 0; of a replicated
  // one, all bytes. Blocks until they are there. Errors: Internal if a feed
  // does not fit the contract (named, with both sizes); the reason of Cancel or
  // Abort.
  absl::StatusOr<Buffer> Take(int argument, MicrobatchIndex m);

  // Frees what is there, and whatever comes from now on.
  void Discard();

 private:
  struct Slot {
    Buffer bytes;
    int uses_left = 0;
    bool filled = false;
    bool used = false;
  };

  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !arrived_.empty() || !reason_.ok();
  }
  void TellTaken(int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Sort(v1::FeedData feed);
  absl::Status SortReplicated(int argument, v1::FeedData feed);
  absl::StatusOr<std::vector<v1::FeedData>> WaitForFeeds();
  int64_t BytesOf(const Argument& argument, int64_t microbatch) const;

  const CallId call_;
  const std::shared_ptr<FeedWindow> window_;
  std::atomic<State> state_ = State::kLive;

  mutable absl::Mutex mu_;
  std::vector<v1::FeedData> arrived_ ABSL_GUARDED_BY(mu_);
  int64_t untaken_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status reason_ ABSL_GUARDED_BY(mu_);
  bool discarding_ ABSL_GUARDED_BY(mu_) = false;

  // Of the compute thread.
  std::vector<Argument> arguments_;
  std::vector<std::vector<Slot>> slots_;  // [argument][microbatch]
  int64_t num_microbatches_ = 0;
  int64_t num_larger_ = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_CALL_INBOX_H_
