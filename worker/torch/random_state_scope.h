#ifndef PIPESTAGE_WORKER_TORCH_RANDOM_STATE_SCOPE_H_
#define PIPESTAGE_WORKER_TORCH_RANDOM_STATE_SCOPE_H_

#include "ATen/core/Generator.h"
#include "ATen/core/Tensor.h"

namespace pipestage {

// Puts a device's default random generator back, when it ends, to where it was.
class RandomStateScope {
 public:
  explicit RandomStateScope(c10::Device device);
  ~RandomStateScope();
  RandomStateScope(const RandomStateScope&) = delete;
  RandomStateScope& operator=(const RandomStateScope&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_RANDOM_STATE_SCOPE_H_
