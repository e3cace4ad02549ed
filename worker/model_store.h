#ifndef PIPESTAGE_WORKER_MODEL_STORE_H_
#define PIPESTAGE_WORKER_MODEL_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "package/model_package.h"
#include "worker/loaded_model.h"
#include "worker/stage.h"

namespace pipestage {

// Which content of which model: one name and version may be replaced on disk by
// other content, and both may be in use for a while.
struct ModelKey {
  std::string name;
  std::string version;
  std::string digest;  // of pipeline.json
  auto operator<=>(const ModelKey&) const = default;
  std::string ToString() const { return name + "@" + version; }
};

// The stages this worker has loaded, of any number of models.
//
// Thread-safe. Load and Unload may take long: call them from one thread, which
// is neither the link's nor the one that computes. A model that is unloaded or
// replaced lives on until the calls that use it are done.
class ModelStore {
 public:
  // `loader` is not owned and outlives the store.
  ModelStore(std::string repository, StageLoader* loader)
      : repository_(std::move(repository)), loader_(loader) {}

  // Loads these stages, and the loss if the last one is among them: all or
  // none. What is loaded already is kept. Returns the bytes of their weights.
  // Errors: FailedPrecondition (MODEL_BROKEN) if the repository holds other
  // content than `key` says or has no such stage; ModelPackage::Open's; the
  // loader's.
  absl::StatusOr<int64_t> Load(const ModelKey& key,
                               absl::Span<const int> stages);
  void Unload(const ModelKey& key);

  // FailedPrecondition (MODEL_NOT_LOADED) if it is not.
  absl::StatusOr<std::shared_ptr<const LoadedModel>> Find(
      const ModelKey& key) const;

 private:
  absl::StatusOr<std::shared_ptr<const LoadedModel>> LoadAll(
      const ModelKey& key, absl::Span<const int> stages);

  const std::string repository_;
  StageLoader* const loader_;
  mutable absl::Mutex mu_;
  std::map<ModelKey, std::shared_ptr<const LoadedModel>> models_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_MODEL_STORE_H_
