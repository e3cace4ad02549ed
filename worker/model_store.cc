#include "worker/model_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

absl::Status Broken(const ModelKey& key, absl::string_view what) {
  return WithReason(absl::FailedPreconditionError(
                        absl::StrCat("model ", key.ToString(), ": ", what)),
                    reason::kModelBroken,
                    {{"model", key.name}, {"version", key.version}});
}

bool HasAll(const LoadedModel& model, absl::Span<const int> stages) {
  return std::all_of(stages.begin(), stages.end(), [&](int stage) {
    return stage >= 0 && model.stage(StageIndex(stage)) != nullptr;
  });
}

}  // namespace

absl::StatusOr<int64_t> ModelStore::Load(const ModelKey& key,
                                         absl::Span<const int> stages) {
  if (auto present = Find(key); present.ok() && HasAll(**present, stages)) {
    return (*present)->weight_bytes();
  }
  PIPESTAGE_ASSIGN_OR_RETURN(std::shared_ptr<const LoadedModel> model,
                             LoadAll(key, stages));
  const int64_t bytes = model->weight_bytes();
  std::shared_ptr<const LoadedModel> replaced;  // freed after the lock
  absl::MutexLock lock(&mu_);
  replaced = std::exchange(models_[key], std::move(model));
  return bytes;
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> ModelStore::LoadAll(
    const ModelKey& key, absl::Span<const int> stages) {
  PIPESTAGE_ASSIGN_OR_RETURN(
      const std::shared_ptr<const ModelPackage> package,
      ModelPackage::Open(repository_, key.name, key.version));
  if (package->digest() != key.digest) {
    return Broken(key, absl::StrCat("pipeline.json in ", package->directory(),
                                    " has digest ", package->digest(),
                                    "; the coordinator's has ", key.digest));
  }
  const int num_stages = static_cast<int>(package->contract().stages.size());
  auto model = std::make_shared<LoadedModel>();
  model->contract =
      std::shared_ptr<const PackageContract>(package, &package->contract());
  model->stages.resize(num_stages);
  for (int stage : stages) {
    if (stage < 0 || stage >= num_stages) {
      return Broken(
          key, absl::StrCat("it has no stage ", stage, ", only ", num_stages));
    }
    PIPESTAGE_ASSIGN_OR_RETURN(model->stages[stage],
                               loader_->LoadStage(*package, StageIndex(stage)));
  }
  const bool has_last = model->stages.back() != nullptr;
  if (has_last && package->contract().loss.has_value()) {
    PIPESTAGE_ASSIGN_OR_RETURN(model->loss, loader_->LoadLoss(*package));
  }
  return model;
}

void ModelStore::Unload(const ModelKey& key) {
  std::shared_ptr<const LoadedModel> removed;  // freed after the lock
  absl::MutexLock lock(&mu_);
  const auto it = models_.find(key);
  if (it == models_.end()) return;
  removed = std::move(it->second);
  models_.erase(it);
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> ModelStore::Find(
    const ModelKey& key) const {
  absl::MutexLock lock(&mu_);
  const auto it = models_.find(key);
  if (it != models_.end()) return it->second;
  return WithReason(absl::FailedPreconditionError(
                        absl::StrCat("model ", key.ToString(), " (digest ",
                                     key.digest, ") is not loaded")),
                    reason::kModelNotLoaded,
                    {{"model", key.name}, {"version", key.version}});
}

}  // namespace pipestage
