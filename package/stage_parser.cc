#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "package/contract_parser.h"

namespace pipestage {
namespace {

absl::StatusOr<DType> ReadDType(const JsonPlace& place) {
  PIPESTAGE_ASSIGN_OR_RETURN(const std::string name, place.String());
  if (const std::optional<DType> dtype = DTypeFromName(name)) return *dtype;
  return place.Error(absl::StrCat(
      "unknown dtype \"", name,
      "\"; expected bool, uint8, int8, int16, int32, int64, float16, bfloat16, "
      "float32 or float64"));
}

absl::StatusOr<SizeExpression> ReadSize(const JsonPlace& place) {
  if (!place.value().is_string()) {
    PIPESTAGE_ASSIGN_OR_RETURN(const int64_t size, place.Integer(0, INT64_MAX));
    return SizeExpression::Constant(size);
  }
  PIPESTAGE_ASSIGN_OR_RETURN(const std::string text, place.String());
  absl::StatusOr<SizeExpression> size = SizeExpression::Parse(text);
  if (!size.ok()) return place.Error(size.status().message());
  return size;
}

absl::StatusOr<std::string> ReadFileName(const JsonPlace& place) {
  PIPESTAGE_ASSIGN_OR_RETURN(std::string path, place.String());
  PIPESTAGE_RETURN_IF_ERROR(CheckFileName(place, path));
  return path;
}

absl::StatusOr<ProgramRef> ReadModule(const JsonPlace& place) {
  PIPESTAGE_RETURN_IF_ERROR(place.CheckKeys({"kind", "name"}, {"params"}));
  ProgramRef program;
  program.kind = ProgramRef::Kind::kModule;
  PIPESTAGE_ASSIGN_OR_RETURN(program.module, ReadIdentifier(place.At("name")));
  program.params_json = "{}";
  if (const auto params = place.Find("params")) {
    PIPESTAGE_RETURN_IF_ERROR(params->Members().status());
    program.params_json = params->value().dump();
  }
  return program;
}

absl::StatusOr<ProgramRef> ReadProgram(const JsonPlace& place) {
  PIPESTAGE_ASSIGN_OR_RETURN(const JsonPlace kind_place, place.Require("kind"));
  PIPESTAGE_ASSIGN_OR_RETURN(const std::string kind, kind_place.String());
  if (kind == "module") return ReadModule(place);
  ProgramRef program;
  if (kind == "export") {
    program.kind = ProgramRef::Kind::kExport;
  } else if (kind == "torchscript") {
    program.kind = ProgramRef::Kind::kTorchScript;
  } else {
    return kind_place.Error(absl::StrCat(
        "unknown kind \"", kind, "\"; expected export, module or torchscript"));
  }
  PIPESTAGE_RETURN_IF_ERROR(place.CheckKeys({"kind", "file"}));
  PIPESTAGE_ASSIGN_OR_RETURN(program.file, ReadFileName(place.At("file")));
  return program;
}

absl::StatusOr<LossContract> ReadProgramLoss(const JsonPlace& place) {
  PIPESTAGE_RETURN_IF_ERROR(
      place.CheckKeys({"kind", "program", "inputs"}, {"weights"}));
  LossContract loss;
  loss.kind = LossContract::Kind::kProgram;
  PIPESTAGE_ASSIGN_OR_RETURN(loss.program, ReadProgram(place.At("program")));
  PIPESTAGE_ASSIGN_OR_RETURN(loss.inputs,
                             ReadList(place.At("inputs"), ReadIdentifier));
  if (const auto weights = place.Find("weights")) {
    PIPESTAGE_ASSIGN_OR_RETURN(loss.weights_file, ReadFileName(*weights));
  }
  return loss;
}

}  // namespace

absl::StatusOr<std::string> ReadIdentifier(const JsonPlace& place) {
  PIPESTAGE_ASSIGN_OR_RETURN(std::string name, place.String());
  const bool valid =
      !name.empty() && name.size() <= 128 &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-';
      });
  if (valid) return name;
  return place.Error(
      absl::StrCat("\"", name,
                   "\" is no name; expected up to 128 letters, digits, "
                   "\"_\", \".\" or \"-\""));
}

absl::Status CheckFileName(const JsonPlace& place, absl::string_view path) {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  const bool plain =
      path.size() <= 512 && path.find('\0') == absl::string_view::npos &&
      std::none_of(parts.begin(), parts.end(), [](absl::string_view part) {
        return part.empty() || part == "." || part == "..";
      });
  if (plain) return absl::OkStatus();
  return place.Error(
      absl::StrCat("\"", path, "\" is no path within the package"));
}

absl::StatusOr<TensorContract> ReadTensor(const JsonPlace& place) {
  PIPESTAGE_RETURN_IF_ERROR(
      place.CheckKeys({"name", "dtype", "shape", "axis"}));
  TensorContract tensor;
  PIPESTAGE_ASSIGN_OR_RETURN(tensor.name, ReadIdentifier(place.At("name")));
  PIPESTAGE_ASSIGN_OR_RETURN(tensor.dtype, ReadDType(place.At("dtype")));
  const JsonPlace shape = place.At("shape");
  PIPESTAGE_ASSIGN_OR_RETURN(tensor.shape, ReadList(shape, ReadSize));
  const auto axes = static_cast<int64_t>(tensor.shape.size());
  if (axes > kMaxTensorDims) {
    return shape.Error(
        absl::StrCat("has ", axes, " axes; at most ", kMaxTensorDims));
  }
  const JsonPlace axis = place.At("axis");
  if (axis.is_null()) return tensor;
  if (axes == 0) return axis.Error("a 0-dim tensor has no axis; expected null");
  PIPESTAGE_ASSIGN_OR_RETURN(tensor.axis, axis.Integer(0, axes - 1));
  return tensor;
}

absl::StatusOr<StageContract> ReadStage(const JsonPlace& place) {
  PIPESTAGE_RETURN_IF_ERROR(
      place.CheckKeys({"program", "inputs", "outputs"},
                      {"step_program", "weights", "keyword_inputs"}));
  StageContract stage;
  PIPESTAGE_ASSIGN_OR_RETURN(stage.program, ReadProgram(place.At("program")));
  if (const auto step = place.Find("step_program")) {
    PIPESTAGE_ASSIGN_OR_RETURN(stage.step_program, ReadProgram(*step));
  }
  if (const auto weights = place.Find("weights")) {
    PIPESTAGE_ASSIGN_OR_RETURN(stage.weights_file, ReadFileName(*weights));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(stage.inputs,
                             ReadList(place.At("inputs"), ReadTensor));
  if (const auto keywords = place.Find("keyword_inputs")) {
    PIPESTAGE_ASSIGN_OR_RETURN(stage.keyword_inputs,
                               ReadList(*keywords, ReadIdentifier));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(stage.outputs,
                             ReadList(place.At("outputs"), ReadTensor));
  return stage;
}

absl::StatusOr<LossContract> ReadLoss(const JsonPlace& place) {
  PIPESTAGE_ASSIGN_OR_RETURN(const JsonPlace kind_place, place.Require("kind"));
  PIPESTAGE_ASSIGN_OR_RETURN(const std::string kind, kind_place.String());
  if (kind == "program") return ReadProgramLoss(place);
  LossContract loss;
  if (kind == "cross_entropy") {
    loss.kind = LossContract::Kind::kCrossEntropy;
    PIPESTAGE_RETURN_IF_ERROR(
        place.CheckKeys({"kind", "prediction", "target"}, {"ignore_index"}));
  } else if (kind == "mean_squared_error") {
    loss.kind = LossContract::Kind::kMeanSquaredError;
    PIPESTAGE_RETURN_IF_ERROR(
        place.CheckKeys({"kind", "prediction", "target"}));
  } else {
    return kind_place.Error(absl::StrCat(
        "unknown kind \"", kind,
        "\"; expected cross_entropy, mean_squared_error or program"));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(loss.prediction,
                             ReadIdentifier(place.At("prediction")));
  PIPESTAGE_ASSIGN_OR_RETURN(loss.target, ReadIdentifier(place.At("target")));
  if (const auto ignore = place.Find("ignore_index")) {
    PIPESTAGE_ASSIGN_OR_RETURN(loss.ignore_index,
                               ignore->Integer(INT64_MIN, INT64_MAX));
  }
  return loss;
}

}  // namespace pipestage
