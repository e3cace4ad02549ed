// Small modules that every worker has: to try a pipeline out, and as examples
// of PIPESTAGE_REGISTER_MODULE.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "ATen/ops/scalar_tensor.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/torch/module_registry.h"

namespace pipestage {
namespace {

using Tensors = std::vector<at::Tensor>;

class Identity : public TorchModule {
 public:
  absl::StatusOr<Tensors> Forward(
      absl::Span<const at::Tensor> inputs) override {
    return Tensors(inputs.begin(), inputs.end());
  }
};

// A number among tensors, so that x keeps its dtype.
at::Tensor NumberTensor(const at::Scalar& number) {
  at::Tensor tensor = at::scalar_tensor(number, number.type());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

// x * scale + bias, each a number or a weight.
class Affine : public TorchModule {
 public:
  Affine(at::Tensor scale, at::Tensor bias)
      : scale_(std::move(scale)), bias_(std::move(bias)) {}

  absl::StatusOr<Tensors> Forward(
      absl::Span<const at::Tensor> inputs) override {
    if (inputs.size() != 1) {
      return absl::AbortedError(
          absl::StrCat("takes one input, not ", inputs.size()));
    }
    return Tensors{inputs[0].mul(scale_).add(bias_)};
  }

 private:
  const at::Tensor scale_;
  const at::Tensor bias_;
};

absl::StatusOr<at::Scalar> NumberParam(const nlohmann::json& params,
                                       const char* name, int64_t otherwise) {
  const auto it = params.find(name);
  if (it == params.end()) return at::Scalar(otherwise);
  if (it->is_number_integer()) return at::Scalar(it->get<int64_t>());
  if (it->is_number()) return at::Scalar(it->get<double>());
  return absl::FailedPreconditionError(
      absl::StrCat("parameter \"", name, "\" is no number"));
}

// A weight of this name, else a parameter, else `otherwise`.
absl::StatusOr<at::Tensor> WeightOrParam(const nlohmann::json& params,
                                         const StageWeights& weights,
                                         const char* name, int64_t otherwise) {
  const auto weight = weights.find(name);
  if (weight != weights.end()) return weight->second;
  PIPESTAGE_ASSIGN_OR_RETURN(const at::Scalar number,
                             NumberParam(params, name, otherwise));
  return NumberTensor(number);
}

absl::StatusOr<std::unique_ptr<TorchModule>> MakeIdentity(
    const nlohmann::json& params, const StageWeights& weights) {
  PIPESTAGE_RETURN_IF_ERROR(CheckParams(params, {}));
  return std::make_unique<Identity>();
}

// Parameters or weights: "scale" (default 1) and "bias" (default 0).
absl::StatusOr<std::unique_ptr<TorchModule>> MakeAffine(
    const nlohmann::json& params, const StageWeights& weights) {
  PIPESTAGE_RETURN_IF_ERROR(CheckParams(params, {"scale", "bias"}));
  PIPESTAGE_ASSIGN_OR_RETURN(at::Tensor scale,
                             WeightOrParam(params, weights, "scale", 1));
  PIPESTAGE_ASSIGN_OR_RETURN(at::Tensor bias,
                             WeightOrParam(params, weights, "bias", 0));
  return std::make_unique<Affine>(std::move(scale), std::move(bias));
}

// 10*x + s: rows then spell which stages they went through, and in what order.
absl::StatusOr<std::unique_ptr<TorchModule>> MakeDigit(
    const nlohmann::json& params, const StageWeights& weights) {
  PIPESTAGE_RETURN_IF_ERROR(CheckParams(params, {"s"}));
  PIPESTAGE_ASSIGN_OR_RETURN(const at::Scalar s, NumberParam(params, "s", 0));
  return std::make_unique<Affine>(NumberTensor(int64_t{10}), NumberTensor(s));
}

PIPESTAGE_REGISTER_MODULE("identity", MakeIdentity);
PIPESTAGE_REGISTER_MODULE("affine", MakeAffine);
PIPESTAGE_REGISTER_MODULE("digit", MakeDigit);

}  // namespace
}  // namespace pipestage
