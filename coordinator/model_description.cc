#include "coordinator/model_description.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace pipestage {
namespace {

v1::TensorContract Describe(const TensorContract& contract) {
  v1::TensorContract out;
  out.set_name(contract.name);
  out.set_dtype(ToProto(contract.dtype));
  for (const SizeExpression& size : contract.shape) out.add_shape(size.text());
  out.set_axis(contract.axis.value_or(-1));
  return out;
}

void Describe(const std::vector<TensorContract>& contracts,
              google::protobuf::RepeatedPtrField<v1::TensorContract>* out) {
  for (const auto& contract : contracts) *out->Add() = Describe(contract);
}

std::string Describe(const ProgramRef& program) {
  switch (program.kind) {
    case ProgramRef::Kind::kExport:
      return "export";
    case ProgramRef::Kind::kModule:
      return absl::StrCat("module ", program.module);
    case ProgramRef::Kind::kTorchScript:
      return "torchscript";
  }
  return "";
}

std::string Describe(const LossContract& loss) {
  switch (loss.kind) {
    case LossContract::Kind::kCrossEntropy:
      return "cross_entropy";
    case LossContract::Kind::kMeanSquaredError:
      return "mean_squared_error";
    case LossContract::Kind::kProgram:
      return "program";
  }
  return "";
}

int64_t WeightBytes(const PackageContract& contract) {
  absl::flat_hash_set<std::string> files;
  for (const auto& stage : contract.stages) files.insert(stage.weights_file);
  if (contract.loss) files.insert(contract.loss->weights_file);
  int64_t bytes = 0;
  for (const auto& file : files) {
    const auto found = contract.files.find(file);
    if (found != contract.files.end()) bytes += found->second.bytes;
  }
  return bytes;
}

}  // namespace

v1::Model DescribeModel(const ModelPackage& package) {
  const PackageContract& contract = package.contract();
  v1::Model model;
  model.set_name(contract.name);
  model.set_version(contract.version);
  model.set_digest(package.digest());
  model.set_description(contract.description);
  Describe(contract.inputs, model.mutable_inputs());
  Describe(contract.targets, model.mutable_targets());
  Describe(contract.outputs, model.mutable_outputs());
  if (contract.loss) model.set_loss(Describe(*contract.loss));
  for (const StageContract& stage : contract.stages) {
    auto* info = model.add_stages();
    info->set_index(stage.index.value());
    info->set_rank(-1);
    info->set_program(Describe(stage.program));
    Describe(stage.inputs, info->mutable_inputs());
    for (const auto& name : stage.keyword_inputs) {
      info->add_keyword_inputs(name);
    }
    Describe(stage.outputs, info->mutable_outputs());
  }
  model.set_default_num_microbatches(contract.default_num_microbatches);
  model.set_default_schedule(contract.default_schedule);
  model.set_weight_bytes(WeightBytes(contract));
  return model;
}

}  // namespace pipestage
