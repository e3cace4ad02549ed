#ifndef PIPESTAGE_WORKER_TORCH_AUTOCAST_SCOPE_H_
#define PIPESTAGE_WORKER_TORCH_AUTOCAST_SCOPE_H_

#include <optional>

#include "c10/core/DeviceType.h"
#include "c10/core/ScalarType.h"

namespace pipestage {

// `with torch.autocast(device, dtype, enabled, cache_enabled):` as a scope of
// the calling thread.
class AutocastScope {
 public:
  struct Options {
    c10::DeviceType device = c10::DeviceType::CPU;
    std::optional<c10::ScalarType> dtype;  // unset = the device's default
    bool enabled = true;
    bool cache_enabled = true;
  };

  explicit AutocastScope(const Options& options);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const c10::DeviceType device_;
  const bool enabled_before_;
  const c10::ScalarType dtype_before_;
  const bool cache_before_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_AUTOCAST_SCOPE_H_
