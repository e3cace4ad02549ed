#include "worker/testing/toy_stage.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace pipestage {
namespace {

struct Params {
  double s = 0;
  double scale = 1;
  double bias = 0;
  std::optional<double> at;
};

absl::Status Broken(absl::string_view what) {
  return WithReason(absl::FailedPreconditionError(what), reason::kModelBroken);
}

absl::StatusOr<Params> ParseParams(const std::string& text) {
  const auto json =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Broken("params are no JSON object");
  Params params;
  params.s = json.value("s", 0.0);
  params.scale = json.value("scale", 1.0);
  params.bias = json.value("bias", 0.0);
  if (json.contains("at")) params.at = json["at"].get<double>();
  return params;
}

using Elements = std::vector<double>;

// `op` on each element of x and of y, which is 0-dim or as long as x.
template <typename Op>
absl::Status Combine(Elements& x, const Elements& y, Op op) {
  if (y.size() != 1 && y.size() != x.size()) {
    return absl::AbortedError(
        absl::StrCat("cannot broadcast ", y.size(), " elements to ", x.size()));
  }
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = op(x[i], y.size() == 1 ? y[0] : y[i]);
  }
  return absl::OkStatus();
}

class ToyStage : public Stage {
 public:
  ToyStage(StageContract contract, Params params, BeforeForward before_forward)
      : contract_(std::move(contract)),
        params_(params),
        before_forward_(std::move(before_forward)) {}

  absl::StatusOr<std::vector<StageTensor>> Forward(
      absl::Span<const StageTensor> inputs) override {
    if (before_forward_) {
      PIPESTAGE_RETURN_IF_ERROR(before_forward_(contract_.index));
    }
    const size_t expected =
        contract_.inputs.size() + contract_.keyword_inputs.size();
    if (inputs.size() != expected) {
      return absl::AbortedError(absl::StrCat("toy stage got ", inputs.size(),
                                             " inputs, takes ", expected));
    }
    Elements x = ToyElements(inputs[0]);
    PIPESTAGE_RETURN_IF_ERROR(ApplyKeywords(inputs, x));
    return Apply(inputs, std::move(x));
  }

  int64_t weight_bytes() const override { return sizeof(double); }

 private:
  const std::string& name() const { return contract_.program.module; }

  absl::Status ApplyKeywords(absl::Span<const StageTensor> inputs,
                             Elements& x) const {
    for (size_t k = 0; k < contract_.keyword_inputs.size(); ++k) {
      const Elements y = ToyElements(inputs[contract_.inputs.size() + k]);
      if (contract_.keyword_inputs[k] == "scale") {
        PIPESTAGE_RETURN_IF_ERROR(Combine(x, y, std::multiplies<>()));
      } else {
        PIPESTAGE_RETURN_IF_ERROR(Combine(x, y, std::plus<>()));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<StageTensor>> Apply(
      absl::Span<const StageTensor> inputs, Elements x) const {
    const bool hit = !params_.at.has_value() ||
                     std::find(x.begin(), x.end(), *params_.at) != x.end();
    const Shape& shape = inputs[0].shape;
    if (name() == "boom" && hit) return absl::AbortedError("boom");
    if (name() == "odd_rows") return OddRows(shape, x);
    std::vector<StageTensor> outputs;
    if (name() == "pair") {
      outputs = {Output(0, shape, Digits(x)), Output(1, shape, x)};
    } else if (name() == "join") {
      PIPESTAGE_RETURN_IF_ERROR(
          Combine(x, ToyElements(inputs[1]), std::plus<>()));
      outputs = {Output(0, shape, x)};
    } else if (name() == "affine") {
      for (double& e : x) e = params_.scale * e + params_.bias;
      outputs = {Output(0, shape, x)};
    } else if (name() == "wrong_shape" && hit) {
      Shape shorter = shape;
      shorter.back() -= 1;
      x.resize(*NumElements(shorter));
      outputs = {Output(0, shorter, Digits(x))};
    } else {
      outputs = {Output(0, shape, Digits(x))};
    }
    return outputs;
  }

  Elements Digits(Elements x) const {
    for (double& e : x) e = 10 * e + params_.s;
    return x;
  }

  StageTensor Output(int index, const Shape& shape, const Elements& x) const {
    return MakeToyTensor(contract_.outputs[index].dtype, shape, x);
  }

  std::vector<StageTensor> OddRows(Shape shape, const Elements& x) const {
    const size_t row = shape[0] == 0 ? 0 : x.size() / shape[0];
    Elements kept;
    for (size_t i = 0; i < x.size(); i += row) {
      if (std::fmod(x[i], 2) != 1) continue;
      kept.insert(kept.end(), x.begin() + i, x.begin() + i + row);
    }
    shape[0] = row == 0 ? 0 : static_cast<int64_t>(kept.size() / row);
    return {Output(0, shape, kept)};
  }

  const StageContract contract_;
  const Params params_;
  const BeforeForward before_forward_;
};

bool IsKnown(const std::string& name) {
  for (const char* known :
       {"digit", "affine", "boom", "wrong_shape", "pair", "join", "odd_rows"}) {
    if (name == known) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Stage>> MakeToyStage(
    const StageContract& contract, BeforeForward before_forward) {
  const ProgramRef& program = contract.program;
  if (program.kind != ProgramRef::Kind::kModule || !IsKnown(program.module)) {
    return Broken(absl::StrCat("stage ", contract.index.value(),
                               ": no toy module '", program.module, "'"));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(const Params params,
                             ParseParams(program.params_json));
  return std::make_unique<ToyStage>(contract, params,
                                    std::move(before_forward));
}

absl::StatusOr<std::unique_ptr<Stage>> ToyStageLoader::LoadStage(
    const ModelPackage& package, StageIndex stage) {
  const StageContract& contract = package.contract().stages[stage.value()];
  if (!contract.weights_file.empty()) {
    PIPESTAGE_RETURN_IF_ERROR(package.OpenFile(contract.weights_file).status());
  }
  return MakeToyStage(contract, before_forward_);
}

absl::StatusOr<std::unique_ptr<LossFunction>> ToyStageLoader::LoadLoss(
    const ModelPackage& package) {
  return MakeToyLoss(package.contract());
}

absl::StatusOr<Buffer> ToyStageLoader::Allocate(size_t size) {
  ++allocations_;
  return Buffer::Allocate(size);
}

absl::StatusOr<HostTensor> ToyStageLoader::ToHost(const StageTensor& tensor) {
  return HostTensor{tensor.dtype, tensor.shape, tensor.data};
}

}  // namespace pipestage
