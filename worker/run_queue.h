#ifndef PIPESTAGE_WORKER_RUN_QUEUE_H_
#define PIPESTAGE_WORKER_RUN_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "proto/worker_link.pb.h"
#include "worker/call_inbox.h"
#include "worker/feed_window.h"

namespace pipestage {

// What the compute thread has to do, in the order in which the coordinator said
// it: form communicators, run calls. The link's thread puts in.
//
// Thread-safe; BeginAttachment before runs and feeds. At any time one
// generation is current; work of others is dropped.
class RunQueue {
 public:
  // Exactly one of the two.
  struct Work {
    std::optional<v1::FormCommunicator> form;
    v1::Run run;
    std::shared_ptr<CallInbox> inbox;  // of the run
  };

  // Feeds that come from now on are of this attachment.
  void BeginAttachment(std::shared_ptr<FeedWindow> window);

  // Ends the generations before the form's, which is current from now on.
  void PushForm(v1::FormCommunicator form);
  // False if the run is not of the current generation: dropped.
  bool PushRun(v1::Run run);
  // For a run that was pushed and is not done; others are dropped and counted.
  void AddFeed(v1::FeedData feed);
  void Cancel(CallId call, absl::string_view reason);

  // Drops what waits of the generations up to this one and aborts what runs.
  // False if they had ended already.
  bool EndGenerations(Generation last, const absl::Status& reason);

  // Blocks until there is work. Nullopt after Stop.
  std::optional<Work> Pop();
  // The next run, if one is there and nothing comes before it. Does not block.
  std::optional<Work> TryPopRun();
  // Whether TryPopRun might have something: cheap enough to ask between
  // actions.
  bool MayHaveRun() const { return size_.load(std::memory_order_relaxed) > 0; }
  // The run is finished with.
  void Done(CallId call);

  // Pop gives nothing from now on; what runs is not disturbed.
  void Stop();
  // Waits until no run that was popped is under way. False after `patience`.
  bool WaitUntilIdle(absl::Duration patience);

  Generation current() const;
  // Runs that wait or are under way.
  int num_runs() const;
  int64_t dropped_feeds() const;

 private:
  using Inboxes = absl::flat_hash_map<CallId, std::shared_ptr<CallInbox>>;

  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopped_ || !work_.empty();
  }
  // Puts the inboxes that it ends into `ended`. The caller destroys them, as
  // every inbox, without the lock: that tells the coordinator.
  bool EndLocked(Generation last, const absl::Status& reason, Inboxes& ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<CallInbox> FindInbox(CallId call) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Work PopFront() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Every run that is not waiting has been popped.
  bool IsIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return inboxes_.size() <= work_.size();
  }

  mutable absl::Mutex mu_;
  std::shared_ptr<FeedWindow> window_ ABSL_GUARDED_BY(mu_) =
      FeedWindow::Unbounded();
  std::deque<Work> work_ ABSL_GUARDED_BY(mu_);
  // Runs that wait or are under way; all of the current generation.
  Inboxes inboxes_ ABSL_GUARDED_BY(mu_);
  Generation current_ ABSL_GUARDED_BY(mu_) = Generation(-1);
  bool ended_ ABSL_GUARDED_BY(mu_) = true;  // the current one
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  int64_t dropped_feeds_ ABSL_GUARDED_BY(mu_) = 0;
  std::atomic<int> size_ = 0;  // of work_
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_RUN_QUEUE_H_
