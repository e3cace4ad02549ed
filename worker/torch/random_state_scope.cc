#include "worker/torch/random_state_scope.h"

#include <mutex>

#include "ATen/Context.h"

namespace pipestage {

RandomStateScope::RandomStateScope(c10::Device device)
    : generator_(at::globalContext().defaultGenerator(device)) {
  const std::lock_guard<std::mutex> lock(generator_.mutex());
  state_ = generator_.get_state();
}

RandomStateScope::~RandomStateScope() {
  const std::lock_guard<std::mutex> lock(generator_.mutex());
  generator_.set_state(state_);
}

}  // namespace pipestage
