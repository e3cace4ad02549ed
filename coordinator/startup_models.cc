#include "coordinator/startup_models.h"

#include <utility>

#include "base/error_info.h"
#include "base/log.h"

namespace pipestage {

StartupModels::StartupModels(std::vector<v1::ModelRef> refs,
                             ModelRegistry* models)
    : models_(models) {
  for (v1::ModelRef& ref : refs) wanted_.push_back({std::move(ref)});
}

void StartupModels::Load() {
  std::vector<std::pair<size_t, v1::ModelRef>> next;
  {
    absl::MutexLock lock(&mu_);
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i].state != State::kWaiting) continue;
      wanted_[i].state = State::kLoading;
      next.emplace_back(i, wanted_[i].ref);
    }
  }
  for (const auto& [index, ref] : next) {
    models_->Load(
        ref, /*num_workers=*/0,
        [this, index = index](const absl::StatusOr<v1::Model>& model) {
          OnLoaded(index, model.status());
        });
  }
}

void StartupModels::OnLoaded(size_t index, const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  Wanted& wanted = wanted_[index];
  const std::string reason = GetReason(status);
  // Workers that are missing, or went while they loaded, may come.
  const bool again = !status.ok() && (reason == reason::kWorkersMissing ||
                                      reason == reason::kWorkerLost);
  wanted.state = again ? State::kWaiting : State::kDone;
  if (!status.ok() && !again) {
    PIPESTAGE_LOG_ERROR("model {}, to be loaded at start: {}",
                        wanted.ref.name(), std::string(status.message()));
  }
}

}  // namespace pipestage
