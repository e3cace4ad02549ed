#ifndef PIPESTAGE_COORDINATOR_MODEL_REGISTRY_H_
#define PIPESTAGE_COORDINATOR_MODEL_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/ids.h"
#include "coordinator/first_ids.h"
#include "coordinator/pipeline.h"
#include "coordinator/placement.h"
#include "package/model_package.h"
#include "proto/model_service.pb.h"
#include "proto/pipeline_service.pb.h"

namespace pipestage {

// A model version that workers hold. Immutable.
struct LoadedModel {
  std::shared_ptr<const ModelPackage> package;
  Placement placement;

  const PackageContract& contract() const { return package->contract(); }
  std::string ToString() const { return package->ToString(); }
};

// Which model versions are served, and that each worker holds its stages of
// them.
//
// A load is on all owners or on none. A worker that comes back is sent the
// models again, and a model is served only when every owner has it. A call pins
// its version: an unload waits for the pins.
//
// Thread-safe. Callbacks run without the lock held.
class ModelRegistry {
 public:
  struct Options {
    std::string repository;
    int num_workers = 1;  // that the pipeline is configured for
    Epoch epoch;          // whose request ids are unlike those of others
  };

  // Keeps a version loaded while it lives. The registry outlives it.
  class Pin {
   public:
    Pin() = default;
    Pin(ModelRegistry* registry, std::shared_ptr<const LoadedModel> model)
        : registry_(registry), model_(std::move(model)) {}
    Pin(Pin&& other) noexcept { *this = std::move(other); }
    Pin& operator=(Pin&& other) noexcept;
    ~Pin() { Release(); }

    const LoadedModel& operator*() const { return *model_; }
    const LoadedModel* operator->() const { return model_.get(); }
    void Release();

   private:
    ModelRegistry* registry_ = nullptr;
    std::shared_ptr<const LoadedModel> model_;
  };

  using Loaded = std::function<void(absl::StatusOr<v1::Model>)>;
  using Unloaded = std::function<void(absl::Status)>;

  explicit ModelRegistry(Options options)
      : options_(std::move(options)),
        last_request_(IdBeforeFirst(options_.epoch)) {}

  // The version a call uses: `ref`'s, or the newest that is loaded.
  //
  // Errors:
  //   NotFound (MODEL_NOT_FOUND, MODEL_NOT_LOADED)
  //   FailedPrecondition (WORKERS_MISSING): an owner of one of its stages is
  //   missing. Unavailable (WORKERS_MISSING): an owner that came back is
  //   loading it.
  absl::StatusOr<Pin> PinForCall(const v1::ModelRef& ref)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whether the workers of `view` hold a pinned model: they may have changed
  // since it was pinned. Errors as above, but NotFound.
  absl::Status CheckServedBy(const PipelineView& view, const LoadedModel& model)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Loads a version and calls `done` when all owners have answered. Loading
  // what is loaded succeeds at once; what was served before is served whatever
  // happens. Errors as listed at ModelService.LoadModel.
  void Load(const v1::ModelRef& ref, int num_workers, Loaded done)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Calls `done` when no call uses the version and the workers were told.
  void Unload(const v1::ModelRef& ref, Unloaded done) ABSL_LOCKS_EXCLUDED(mu_);

  absl::StatusOr<v1::Model> Get(const v1::ModelRef& ref) const
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<v1::ListModelsResponse> List(
      const v1::ListModelsRequest& request) const ABSL_LOCKS_EXCLUDED(mu_);

  // Whether a worker that came back is loading what it holds of a loaded
  // version.
  bool IsRestoring() const ABSL_LOCKS_EXCLUDED(mu_);
  // Names of the versions served, "byte-lm@1".
  std::vector<std::string> Serving() const ABSL_LOCKS_EXCLUDED(mu_);
  // Stages that the worker at `rank` holds, "byte-lm@1/0".
  std::vector<std::string> StagesAt(Rank rank) const ABSL_LOCKS_EXCLUDED(mu_);

  // From the worker links (see WorkerEvents).
  void OnViewChanged(const std::shared_ptr<const PipelineView>& view)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnStagesLoaded(const Attachment& from, const v1::StagesLoaded& loaded)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Name and version.
  using Key = std::pair<std::string, std::string>;

  enum class Phase { kLoading, kLoaded, kUnloading };

  // What one owner has of a model.
  struct Owner {
    AttachmentId holds;   // the attachment that has loaded its stages; 0 = none
    AttachmentId asked;   // the attachment that was asked last
    int64_t request = 0;  // of a LoadStages that is not answered; 0 = none
    absl::Status error;   // the answer of `asked`, if it was one
  };
  struct Entry {
    Phase phase = Phase::kLoading;
    std::shared_ptr<const LoadedModel> model;
    std::vector<Owner> owners;  // by rank
    int pins = 0;
    std::vector<Loaded> load_waiters;
    std::vector<Unloaded> unload_waiters;
  };

  // Work to be done without the lock.
  using Deferred = std::vector<std::function<void()>>;

  absl::StatusOr<std::shared_ptr<const LoadedModel>> OpenModel(
      const v1::ModelRef& ref, int num_workers) const;
  absl::StatusOr<std::string> NewestInRepository(const std::string& name) const;
  absl::StatusOr<Key> Resolve(const v1::ModelRef& ref) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status NotLoaded(const v1::ModelRef& ref) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckServed(const Entry& entry, const PipelineView& view) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // True if `done` was taken: the version is loaded, or on its way.
  bool JoinLoad(const Key& key, int num_workers, Loaded& done,
                Deferred& deferred) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BeginLoad(const Key& key, std::shared_ptr<const LoadedModel> model,
                 Loaded done, Deferred& deferred)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Asks the owners that are attached and have not been asked.
  void AskOwners(const Key& key, Entry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Forgets what owners had that are gone.
  void DropGoneOwners(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends a load all of whose owners have answered or are gone.
  void SettleLoad(const Key& key, Deferred& deferred)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FinishUnload(const Key& key, Deferred& deferred)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TellUnload(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  const Attachment* AttachedAt(int rank) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FillState(const Entry& entry, v1::Model& model) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  v1::Model Describe(const Key& key) const ABSL_LOCKS_EXCLUDED(mu_);
  void Unpin(const LoadedModel& model) ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  mutable absl::Mutex mu_;
  std::map<Key, Entry> entries_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<int64_t, std::pair<Key, int>> requests_
      ABSL_GUARDED_BY(mu_);  // -> model and rank
  int64_t last_request_ ABSL_GUARDED_BY(mu_);
  // Never null: at first a pipeline without ranks.
  std::shared_ptr<const PipelineView> view_ ABSL_GUARDED_BY(mu_) =
      std::make_shared<PipelineView>();
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_MODEL_REGISTRY_H_
