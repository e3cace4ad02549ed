#ifndef PIPESTAGE_WORKER_STAGE_ACTIVITY_H_
#define PIPESTAGE_WORKER_STAGE_ACTIVITY_H_

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/ids.h"

namespace pipestage {

// What the compute thread has a stage (or the loss) compute at the moment, for
// those who watch it from outside: a kernel cannot be interrupted, nor say how
// it gets on.
//
// Thread-safe.
class StageActivity {
 public:
  struct Work {
    CallId call;
    StageIndex stage;
    MicrobatchIndex microbatch;
    absl::Time since;
  };

  // Says that the work goes on while the scope lives. No `activity`: nobody is
  // told.
  class Scope {
   public:
    Scope(StageActivity* activity, const Work& work) : activity_(activity) {
      if (activity_ != nullptr) activity_->Set(work);
    }
    ~Scope() {
      if (activity_ != nullptr) activity_->Set(std::nullopt);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StageActivity* const activity_;
  };

  std::optional<Work> current() const {
    absl::MutexLock lock(&mu_);
    return work_;
  }

 private:
  void Set(const std::optional<Work>& work) {
    absl::MutexLock lock(&mu_);
    work_ = work;
  }

  mutable absl::Mutex mu_;
  std::optional<Work> work_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_STAGE_ACTIVITY_H_
