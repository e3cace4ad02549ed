#ifndef PIPESTAGE_WORKER_LINK_WRITER_H_
#define PIPESTAGE_WORKER_LINK_WRITER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/worker_link.pb.h"

namespace pipestage {

// Writes messages of several threads to one stream after another, in the order
// in which they are given.
//
// A small message is written by the thread that gives it, if nothing stands
// before it: that saves waking another thread, which on a busy machine may take
// longer than the call it reports. Others go through a thread of the writer.
//
// Thread-safe.
class LinkWriter {
 public:
  // False if the stream is broken; then it is not called again.
  // Null: nothing more will come.
  using WriteFn = std::function<bool(const v1::WorkerMessage*)>;

  struct Options {
    // Up to this size a message is written in place.
    size_t small_bytes = 64 << 10;
    // Large messages wait while more than this is queued.
    size_t max_queued_bytes = 8 << 20;
  };

  explicit LinkWriter(Options options);
  ~LinkWriter();

  // Messages go to this stream from now on, until Close. Before Open and after
  // Close they are dropped.
  void Open(WriteFn write);
  // Drops what is queued; returns when no write is under way. Make writes fail
  // first.
  void Close();

  void Send(v1::WorkerMessage message);

  // Writes what is queued and that nothing more will come, then drops what is
  // given. False if that takes longer than `patience`.
  bool Finish(absl::Duration patience);

 private:
  struct Queued {
    v1::WorkerMessage message;
    size_t bytes;
  };

  bool MayWrite() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || (!queue_.empty() && !writing_);
  }
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return write_ == nullptr || queued_bytes_ <= options_.max_queued_bytes;
  }
  bool IsIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !writing_; }
  bool IsFlushed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return write_ == nullptr || (queue_.empty() && !writing_);
  }
  // Writes without the lock, which is held before and after.
  void Write(const v1::WorkerMessage* message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Drop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Loop();

  const Options options_;
  absl::Mutex mu_;
  WriteFn write_ ABSL_GUARDED_BY(mu_);  // null: no stream
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mu_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::thread thread_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_LINK_WRITER_H_
