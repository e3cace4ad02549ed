#include "worker/torch/exported_program.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "ATen/ops/empty_strided.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tensor/host_tensor.h"
#include "worker/torch/graph_compiler.h"
#include "worker/torch/random_state_scope.h"
#include "worker/torch/torch_errors.h"

namespace pipestage {
namespace {

using Kind = ExportedInput::Kind;

absl::Status Broken(absl::string_view what) {
  return absl::FailedPreconditionError(what);
}

// What a message calls one of the graph's inputs.
std::string Owner(const ExportedInput& input) {
  switch (input.kind) {
    case Kind::kParameter:
      return absl::StrCat("parameter ", input.fqn);
    case Kind::kBuffer:
      return absl::StrCat("buffer ", input.fqn);
    case Kind::kConstant:
      return absl::StrCat("constant ", input.fqn);
    default:
      return absl::StrCat("input ", input.value);
  }
}

bool IsInArchive(const ExportedInput& input) {
  return input.kind == Kind::kConstant ||
         (input.kind == Kind::kBuffer && !input.persistent);
}

const ExportedTensor* FindMeta(const ExportedModule& module,
                               const std::string& value) {
  const auto it = module.graph.tensors.find(value);
  return it == module.graph.tensors.end() ? nullptr : &it->second;
}

ProgramTensor Describe(const ExportedModule& module, const std::string& value) {
  ProgramTensor tensor;
  tensor.name = value;
  const ExportedTensor* const meta = FindMeta(module, value);
  if (meta == nullptr) return tensor;
  tensor.dtype = DTypeOfScalarTypeCode(meta->scalar_type);
  for (const ExportedSize& size : meta->sizes) {
    tensor.sizes.push_back(size.value);
  }
  return tensor;
}

// The sizes or strides as numbers; nullopt if one is symbolic.
std::optional<std::vector<int64_t>> Numbers(
    const std::vector<ExportedSize>& sizes) {
  std::vector<int64_t> numbers;
  for (const ExportedSize& size : sizes) {
    if (!size.value) return std::nullopt;
    numbers.push_back(*size.value);
  }
  return numbers;
}

std::string DescribeTensor(const at::Tensor& tensor) {
  return absl::StrCat(c10::toString(tensor.scalar_type()), " ",
                      ShapeToString({tensor.sizes().data(),
                                     static_cast<size_t>(tensor.dim())}));
}

// A weight is stored row by row; kernels choose by the strides it had in
// Python.
at::Tensor WithStrides(const at::Tensor& tensor,
                       const std::vector<int64_t>& strides) {
  if (tensor.strides() == at::IntArrayRef(strides)) return tensor;
  at::Tensor strided =
      at::empty_strided(tensor.sizes(), strides, tensor.options());
  if (!strided.is_non_overlapping_and_dense()) return tensor;
  return strided.copy_(tensor);
}

// Whether a weight requires a gradient decides, even where none is computed,
// how LibTorch multiplies matrices (should_fold in LinearAlgebra.cpp), and so
// the last bits of results.
at::Tensor AsInPython(const at::Tensor& tensor, const ExportedTensor& meta) {
  at::Tensor result = tensor.detach();
  if (meta.requires_grad && result.is_floating_point()) {
    result.set_requires_grad(true);
  }
  return result;
}

absl::StatusOr<at::Tensor> FitWeight(const ExportedTensor& meta,
                                     const at::Tensor& tensor) {
  const auto sizes = Numbers(meta.sizes);
  const auto strides = Numbers(meta.strides);
  if (!sizes || !strides) return Broken("its shape is not fixed");
  const std::optional<DType> dtype = DTypeOfScalarTypeCode(meta.scalar_type);
  if (!dtype || ToScalarType(*dtype) != tensor.scalar_type() ||
      at::IntArrayRef(*sizes) != tensor.sizes()) {
    return Broken(absl::StrCat(
        "is ", DescribeTensor(tensor), "; the program takes ",
        dtype ? c10::toString(ToScalarType(*dtype)) : "another dtype", " ",
        ShapeToString(*sizes)));
  }
  if (sizes->size() != strides->size()) return Broken("its strides are wrong");
  return CallTorch("its strides", [&]() -> absl::StatusOr<at::Tensor> {
    return WithStrides(tensor, *strides);
  });
}

absl::StatusOr<at::Tensor> FindState(const ExportedArchive& archive,
                                     const StageWeights& weights,
                                     const ExportedInput& input) {
  const auto& tensors = IsInArchive(input) ? archive.constants : weights;
  const auto it = tensors.find(input.fqn);
  if (it == tensors.end()) {
    return Broken(IsInArchive(input) ? "is not in the archive's constants"
                                     : "is not among the stage's weights");
  }
  const ExportedTensor* const meta = FindMeta(archive.module, input.value);
  if (meta == nullptr) return Broken("has no description in the graph");
  return FitWeight(*meta, it->second);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExportedProgram>> ExportedProgram::Load(
    absl::string_view archive, const StageWeights& weights,
    const Options& options) {
  PIPESTAGE_ASSIGN_OR_RETURN(const ExportedArchive exported,
                             ReadExportedArchive(archive));
  const ExportedModule& module = exported.module;
  std::unique_ptr<ExportedProgram> program(new ExportedProgram());
  program->device_ = options.device;
  std::vector<std::string> owners;
  for (const ExportedInput& input : module.inputs) {
    owners.push_back(Owner(input));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(
      program->graph_, CompileGraph(module.graph, owners, options.device));
  PIPESTAGE_RETURN_IF_ERROR(
      program->BindState(exported, weights, options.device));
  PIPESTAGE_RETURN_IF_ERROR(program->BindUserInputs(module, options.keywords));
  program->DescribeOutputs(module);
  return program;
}

absl::Status ExportedProgram::BindState(const ExportedArchive& archive,
                                        const StageWeights& weights,
                                        c10::Device device) {
  std::set<const void*> counted;
  for (const ExportedInput& input : archive.module.inputs) {
    if (input.kind == Kind::kUser) {
      bound_.emplace_back();
      continue;
    }
    absl::StatusOr<at::Tensor> found = FindState(archive, weights, input);
    if (!found.ok()) {
      return Broken(absl::StrCat(Owner(input), " ", found.status().message()));
    }
    PIPESTAGE_ASSIGN_OR_RETURN(
        const at::Tensor tensor,
        CallTorch(Owner(input), [&]() -> absl::StatusOr<at::Tensor> {
          return AsInPython(found->to(device),
                            *FindMeta(archive.module, input.value));
        }));
    bound_.push_back(tensor);
    state_.Add(tensor);
    if (counted.insert(tensor.storage().unsafeGetStorageImpl()).second) {
      weight_bytes_ += static_cast<int64_t>(tensor.nbytes());
    }
  }
  return absl::OkStatus();
}

absl::Status ExportedProgram::BindUserInputs(
    const ExportedModule& module, const std::vector<std::string>& keywords) {
  std::vector<int> positions;
  for (size_t i = 0; i < module.inputs.size(); ++i) {
    if (module.inputs[i].kind == Kind::kUser) positions.push_back(i);
  }
  if (keywords.size() != module.keywords.size() ||
      keywords.size() > positions.size()) {
    return Broken(absl::StrCat("the program takes the keywords [",
                               absl::StrJoin(module.keywords, ", "),
                               "]; the contract gives [",
                               absl::StrJoin(keywords, ", "), "]"));
  }
  const size_t positional = positions.size() - keywords.size();
  for (size_t i = 0; i < positional; ++i) {
    user_inputs_.push_back(DescribeUserInput(module, positions[i]));
  }
  for (const std::string& keyword : keywords) {
    const auto it =
        std::find(module.keywords.begin(), module.keywords.end(), keyword);
    if (it == module.keywords.end()) {
      return Broken(absl::StrCat("the program takes no keyword ", keyword,
                                 "; it takes [",
                                 absl::StrJoin(module.keywords, ", "), "]"));
    }
    const size_t index = positional + (it - module.keywords.begin());
    user_inputs_.push_back(DescribeUserInput(module, positions[index]));
  }
  return absl::OkStatus();
}

ExportedProgram::UserInput ExportedProgram::DescribeUserInput(
    const ExportedModule& module, int position) {
  const std::string& value = module.inputs[position].value;
  signature_.inputs.push_back(Describe(module, value));
  UserInput input{position, {}};
  if (const ExportedTensor* const meta = FindMeta(module, value)) {
    for (const ExportedSize& size : meta->sizes) {
      input.symbols.push_back(
          size.symbol.empty() ? -1 : SymbolIndex(module, size.symbol));
    }
  }
  return input;
}

void ExportedProgram::DescribeOutputs(const ExportedModule& module) {
  for (const ExportedArgument& output : module.graph.outputs) {
    signature_.outputs.push_back(Describe(module, output.names[0]));
  }
}

int ExportedProgram::SymbolIndex(const ExportedModule& module,
                                 const std::string& name) {
  for (size_t i = 0; i < symbols_.size(); ++i) {
    if (symbols_[i].name == name) return static_cast<int>(i);
  }
  const auto range = module.ranges.find(name);
  symbols_.push_back(
      {name, range == module.ranges.end() ? ExportedRange() : range->second});
  return static_cast<int>(symbols_.size()) - 1;
}

absl::Status ExportedProgram::CheckInput(int index, const at::Tensor& tensor,
                                         std::vector<int64_t>& symbols) const {
  const ProgramTensor& expected = signature_.inputs[index];
  const auto refused = [&](const auto&... wanted) {
    return absl::AbortedError(absl::StrCat("input ", expected.name, " is ",
                                           DescribeTensor(tensor),
                                           "; the program takes ", wanted...));
  };
  if (!expected.dtype ||
      ToScalarType(*expected.dtype) != tensor.scalar_type()) {
    return refused(expected.dtype ? DTypeName(*expected.dtype)
                                  : "another dtype");
  }
  if (tensor.dim() != static_cast<int64_t>(expected.sizes.size())) {
    return refused(expected.sizes.size(), " axes");
  }
  for (int axis = 0; axis < tensor.dim(); ++axis) {
    const int64_t size = tensor.size(axis);
    int64_t wanted = expected.sizes[axis].value_or(size);
    if (const int symbol = user_inputs_[index].symbols[axis]; symbol >= 0) {
      if (symbols[symbol] < 0) symbols[symbol] = size;
      wanted = symbols[symbol];
      const ExportedRange& range = symbols_[symbol].range;
      if (size < range.min || size > range.max) {
        return refused(range.min, " to ", range.max, " on axis ", axis);
      }
    }
    if (size != wanted) return refused(wanted, " on axis ", axis);
  }
  return absl::OkStatus();
}

absl::Status ExportedProgram::CheckInputs(
    absl::Span<const at::Tensor> inputs) const {
  if (inputs.size() != user_inputs_.size()) {
    return absl::AbortedError(
        absl::StrCat(inputs.size(), " inputs were given; the program takes ",
                     user_inputs_.size()));
  }
  std::vector<int64_t> symbols(symbols_.size(), -1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    PIPESTAGE_RETURN_IF_ERROR(CheckInput(i, inputs[i], symbols));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<at::Tensor>> ExportedProgram::Run(
    absl::Span<const at::Tensor> inputs) {
  PIPESTAGE_RETURN_IF_ERROR(CheckInputs(inputs));
  StorageSet taken(&state_);
  std::vector<c10::IValue> values(bound_.begin(), bound_.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[user_inputs_[i].position] = inputs[i];
    taken.Add(inputs[i]);
  }
  return CallTorch(
      "running the program", [&]() -> absl::StatusOr<std::vector<at::Tensor>> {
        std::optional<RandomStateScope> random_state;
        if (graph_->draws_random()) random_state.emplace(device_);
        PIPESTAGE_ASSIGN_OR_RETURN(const std::vector<c10::IValue> results,
                                   graph_->Run(std::move(values), taken));
        std::vector<at::Tensor> outputs;
        for (const c10::IValue& result : results) {
          outputs.push_back(result.toTensor());
        }
        return outputs;
      });
}

}  // namespace pipestage
