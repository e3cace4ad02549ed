#ifndef PIPESTAGE_COORDINATOR_STARTUP_MODELS_H_
#define PIPESTAGE_COORDINATOR_STARTUP_MODELS_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/model_registry.h"
#include "proto/pipeline_service.pb.h"

namespace pipestage {

// Loads the models named at start as soon as the workers for them are there.
// One whose load fails for another reason is given up, and logged.
//
// Thread-safe.
class StartupModels {
 public:
  // `models` is not owned and outlives every load.
  StartupModels(std::vector<v1::ModelRef> refs, ModelRegistry* models);

  // Tries those that are not loaded yet. Call when all workers are
  // there.
  void Load() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  enum class State { kWaiting, kLoading, kDone };

  struct Wanted {
    v1::ModelRef ref;
    State state = State::kWaiting;
  };

  void OnLoaded(size_t index, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);

  ModelRegistry* const models_;
  absl::Mutex mu_;
  std::vector<Wanted> wanted_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_STARTUP_MODELS_H_
