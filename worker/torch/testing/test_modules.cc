// Modules that misbehave on request, linked into the tests' worker only.

#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/torch/module_registry.h"

namespace pipestage {
namespace {

using Tensors = std::vector<at::Tensor>;

// x + bias, after this long.
class Sleepy : public TorchModule {
 public:
  Sleepy(std::chrono::milliseconds duration, double bias)
      : duration_(duration), bias_(bias) {}

  absl::StatusOr<Tensors> Forward(
      absl::Span<const at::Tensor> inputs) override {
    std::this_thread::sleep_for(duration_);
    return Tensors{inputs[0].add(bias_)};
  }

 private:
  const std::chrono::milliseconds duration_;
  const double bias_;
};

// x + bias; throws what a framework may throw if an element of x is `throw_at`.
class Boom : public TorchModule {
 public:
  Boom(double throw_at, double bias) : throw_at_(throw_at), bias_(bias) {}

  absl::StatusOr<Tensors> Forward(
      absl::Span<const at::Tensor> inputs) override {
    if (inputs[0].eq(throw_at_).any().item<bool>()) {
      throw std::runtime_error(absl::StrCat("boom at ", throw_at_));
    }
    return Tensors{inputs[0].add(bias_)};
  }

 private:
  const double throw_at_;
  const double bias_;
};

// Ends the process, as a kernel's fault would, if an element of x is `exit_at`.
class Crash : public TorchModule {
 public:
  explicit Crash(double exit_at) : exit_at_(exit_at) {}

  absl::StatusOr<Tensors> Forward(
      absl::Span<const at::Tensor> inputs) override {
    if (inputs[0].eq(exit_at_).any().item<bool>()) std::abort();
    return Tensors{inputs[0].add(0.0)};
  }

 private:
  const double exit_at_;
};

absl::StatusOr<std::unique_ptr<TorchModule>> MakeSleepy(
    const nlohmann::json& params, const StageWeights&) {
  PIPESTAGE_RETURN_IF_ERROR(CheckParams(params, {"milliseconds", "bias"}));
  return std::make_unique<Sleepy>(
      std::chrono::milliseconds(params.value("milliseconds", 0)),
      params.value("bias", 0.0));
}

absl::StatusOr<std::unique_ptr<TorchModule>> MakeBoom(
    const nlohmann::json& params, const StageWeights&) {
  PIPESTAGE_RETURN_IF_ERROR(CheckParams(params, {"throw_at", "bias"}));
  return std::make_unique<Boom>(params.value("throw_at", -1.0),
                                params.value("bias", 0.0));
}

absl::StatusOr<std::unique_ptr<TorchModule>> MakeCrash(
    const nlohmann::json& params, const StageWeights&) {
  PIPESTAGE_RETURN_IF_ERROR(CheckParams(params, {"exit_at"}));
  return std::make_unique<Crash>(params.value("exit_at", -1.0));
}

PIPESTAGE_REGISTER_MODULE("sleepy", MakeSleepy);
PIPESTAGE_REGISTER_MODULE("boom", MakeBoom);
PIPESTAGE_REGISTER_MODULE("crash", MakeCrash);

}  // namespace
}  // namespace pipestage
