#ifndef PIPESTAGE_WORKER_TORCH_MODULE_REGISTRY_H_
#define PIPESTAGE_WORKER_TORCH_MODULE_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"
#include "worker/torch/stage_weights.h"

namespace pipestage {

// A stage written in C++, linked into the worker and found by name.
//
// Used by one thread at a time, in inference mode.
class TorchModule {
 public:
  virtual ~TorchModule() = default;

  // Computes in evaluation mode: writes neither to inputs nor to weights.
  // Results may be views. May throw what LibTorch throws.
  virtual absl::StatusOr<std::vector<at::Tensor>> Forward(
      absl::Span<const at::Tensor> inputs) = 0;
};

// Makes a module from the JSON object `params` of a package and the stage's
// weights, which lie on the worker's device. FailedPrecondition for parameters
// or weights that do not serve.
using ModuleFactory =
    std::function<absl::StatusOr<std::unique_ptr<TorchModule>>(
        const nlohmann::json& params, const StageWeights& weights)>;

// The modules that packages may name. Thread-safe.
class ModuleRegistry {
 public:
  // The one that PIPESTAGE_REGISTER_MODULE adds to.
  static ModuleRegistry& Global();

  // A name may be registered once.
  bool Register(const std::string& name, ModuleFactory factory)
      ABSL_LOCKS_EXCLUDED(mu_);

  // FailedPrecondition, with the names that exist, if it is not registered.
  absl::StatusOr<ModuleFactory> Find(const std::string& name) const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable absl::Mutex mu_;
  std::map<std::string, ModuleFactory> factories_ ABSL_GUARDED_BY(mu_);
};

// FailedPrecondition if `params` has a key that is not one of `known`.
absl::Status CheckParams(const nlohmann::json& params,
                         absl::Span<const char* const> known);

}  // namespace pipestage

// Registers a module when the program starts, at namespace scope of a source
// file. The library needs alwayslink = True, or the linker leaves it out.
#define PIPESTAGE_REGISTER_MODULE(name, factory) \
  PIPESTAGE_REGISTER_MODULE_AT(name, factory, __LINE__)
#define PIPESTAGE_REGISTER_MODULE_AT(name, factory, line) \
  PIPESTAGE_REGISTER_MODULE_IMPL(name, factory, line)
#define PIPESTAGE_REGISTER_MODULE_IMPL(name, factory, line)            \
  [[maybe_unused]] static const bool pipestage_module_at_line_##line = \
      ::pipestage::ModuleRegistry::Global().Register(name, factory)

#endif  // PIPESTAGE_WORKER_TORCH_MODULE_REGISTRY_H_
