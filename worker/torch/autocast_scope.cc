#include "worker/torch/autocast_scope.h"

#include "ATen/autocast_mode.h"

namespace pipestage {

AutocastScope::AutocastScope(const Options& options)
    : device_(options.device),
      enabled_before_(at::autocast::is_autocast_enabled(device_)),
      dtype_before_(at::autocast::get_autocast_dtype(device_)),
      cache_before_(at::autocast::is_autocast_cache_enabled()) {
  at::autocast::set_autocast_enabled(device_, options.enabled);
  at::autocast::set_autocast_dtype(device_,
                                   options.dtype.value_or(dtype_before_));
  at::autocast::increment_nesting();
  at::autocast::set_autocast_cache_enabled(options.cache_enabled);
}

AutocastScope::~AutocastScope() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
  at::autocast::set_autocast_cache_enabled(cache_before_);
}

}  // namespace pipestage
