#ifndef PIPESTAGE_WORKER_TASK_THREAD_H_
#define PIPESTAGE_WORKER_TASK_THREAD_H_

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace pipestage {

// A thread that does tasks one after the other. Thread-safe.
class TaskThread {
 public:
  TaskThread();
  // Finishes the task under way; those that wait are dropped.
  ~TaskThread();

  void Post(std::function<void()> task);

 private:
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || !tasks_.empty();
  }
  void Loop();

  absl::Mutex mu_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TASK_THREAD_H_
