#include "package/contract_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "package/valid_name.h"

namespace pipestage {
namespace {

constexpr absl::string_view kFormat = "pipestage.pipeline/1";

// Reads every element of the list at `place` with `read`.
template <typename T>
absl::StatusOr<std::vector<T>> ReadList(
    const JsonPlace& place, absl::StatusOr<T> (*read)(const JsonPlace&)) {
  PIPESTAGE_ASSIGN_OR_RETURN(const auto elements, place.Elements());
  std::vector<T> list;
  for (const JsonPlace& element : elements) {
    PIPESTAGE_ASSIGN_OR_RETURN(T value, read(element));
    list.push_back(std::move(value));
  }
  return list;
}

absl::StatusOr<std::string> ReadTensorName(const JsonPlace& place) {
  PIPESTAGE_ASSIGN_OR_RETURN(std::string name, place.String());
  const bool valid =
      !name.empty() && name.size() <= 128 &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-';
      });
  if (valid) return name;
  return place.Error(absl::StrCat(
      "\"", name,
      "\" is no tensor's name; expected up to 128 letters, digits, "
      "\"_\", \".\" or \"-\""));
}

absl::StatusOr<std::string> ReadPackageName(const JsonPlace& place) {
  PIPESTAGE_ASSIGN_OR_RETURN(std::string name, place.String());
  if (IsValidName(name)) return name;
  return place.Error(absl::StrCat(
      "\"", name, "\" does not match ^[a-z0-9][a-z0-9._-]{0,127}$"));
}

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

absl::StatusOr<TensorContract> ReadTensor(const JsonPlace& place) {
  PIPESTAGE_RETURN_IF_ERROR(
      place.CheckKeys({"name", "dtype", "shape", "axis"}));
  TensorContract tensor;
  PIPESTAGE_ASSIGN_OR_RETURN(tensor.name, ReadTensorName(place.At("name")));
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

// A path that stays beneath the package: relative, no "..", no oddities.
absl::StatusOr<std::string> ReadFileName(const JsonPlace& place) {
  PIPESTAGE_ASSIGN_OR_RETURN(std::string path, place.String());
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  const bool plain =
      path.size() <= 512 && path.find('\0') == std::string::npos &&
      std::none_of(parts.begin(), parts.end(), [](absl::string_view part) {
        return part.empty() || part == "." || part == "..";
      });
  if (plain) return path;
  return place.Error(
      absl::StrCat("\"", path, "\" is no path within the package"));
}

absl::StatusOr<ProgramRef> ReadModule(const JsonPlace& place) {
  PIPESTAGE_RETURN_IF_ERROR(place.CheckKeys({"kind", "name"}, {"params"}));
  ProgramRef program;
  program.kind = ProgramRef::Kind::kModule;
  PIPESTAGE_ASSIGN_OR_RETURN(program.module, ReadTensorName(place.At("name")));
  program.params_json = "{}";
  if (const auto params = place.Find("params")) {
    PIPESTAGE_RETURN_IF_ERROR(params->Members().status());
    program.params_json = params->value().dump();
  }
  return program;
}

absl::StatusOr<ProgramRef> ReadProgram(const JsonPlace& place) {
  PIPESTAGE_RETURN_IF_ERROR(place.Members().status());
  const auto kind_place = place.Find("kind");
  if (!kind_place) return place.CheckKeys({"kind"});
  PIPESTAGE_ASSIGN_OR_RETURN(const std::string kind, kind_place->String());
  if (kind == "module") return ReadModule(place);
  ProgramRef program;
  if (kind == "export") {
    program.kind = ProgramRef::Kind::kExport;
  } else if (kind == "torchscript") {
    program.kind = ProgramRef::Kind::kTorchScript;
  } else {
    return kind_place->Error(absl::StrCat(
        "unknown kind \"", kind, "\"; expected export, module or torchscript"));
  }
  PIPESTAGE_RETURN_IF_ERROR(place.CheckKeys({"kind", "file"}));
  PIPESTAGE_ASSIGN_OR_RETURN(program.file, ReadFileName(place.At("file")));
  return program;
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
                               ReadList(*keywords, ReadTensorName));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(stage.outputs,
                             ReadList(place.At("outputs"), ReadTensor));
  return stage;
}

absl::StatusOr<LossContract> ReadProgramLoss(const JsonPlace& place) {
  PIPESTAGE_RETURN_IF_ERROR(
      place.CheckKeys({"kind", "program", "inputs"}, {"weights"}));
  LossContract loss;
  loss.kind = LossContract::Kind::kProgram;
  PIPESTAGE_ASSIGN_OR_RETURN(loss.program, ReadProgram(place.At("program")));
  PIPESTAGE_ASSIGN_OR_RETURN(loss.inputs,
                             ReadList(place.At("inputs"), ReadTensorName));
  if (const auto weights = place.Find("weights")) {
    PIPESTAGE_ASSIGN_OR_RETURN(loss.weights_file, ReadFileName(*weights));
  }
  return loss;
}

absl::StatusOr<LossContract> ReadLoss(const JsonPlace& place) {
  PIPESTAGE_RETURN_IF_ERROR(place.Members().status());
  const auto kind_place = place.Find("kind");
  if (!kind_place) return place.CheckKeys({"kind"});
  PIPESTAGE_ASSIGN_OR_RETURN(const std::string kind, kind_place->String());
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
    return kind_place->Error(absl::StrCat(
        "unknown kind \"", kind,
        "\"; expected cross_entropy, mean_squared_error or program"));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(loss.prediction,
                             ReadTensorName(place.At("prediction")));
  PIPESTAGE_ASSIGN_OR_RETURN(loss.target, ReadTensorName(place.At("target")));
  if (const auto ignore = place.Find("ignore_index")) {
    PIPESTAGE_ASSIGN_OR_RETURN(loss.ignore_index,
                               ignore->Integer(INT64_MIN, INT64_MAX));
  }
  return loss;
}

absl::StatusOr<std::map<std::string, SizeRange>> ReadSizes(
    const JsonPlace& place) {
  PIPESTAGE_ASSIGN_OR_RETURN(const auto members, place.Members());
  std::map<std::string, SizeRange> sizes;
  for (const auto& [name, range_place] : members) {
    PIPESTAGE_RETURN_IF_ERROR(range_place.CheckKeys({}, {"min", "max"}));
    SizeRange& range = sizes[name];
    // No rows are no batch; of the others, none may be what a model takes.
    const int64_t least = name == kRowsName ? 1 : 0;
    if (const auto min = range_place.Find("min")) {
      PIPESTAGE_ASSIGN_OR_RETURN(range.min, min->Integer(least, INT64_MAX));
    }
    if (const auto max = range_place.Find("max")) {
      PIPESTAGE_ASSIGN_OR_RETURN(range.max, max->Integer(range.min, INT64_MAX));
    }
  }
  return sizes;
}

absl::StatusOr<PackageFile> ReadFile(const JsonPlace& place) {
  PIPESTAGE_RETURN_IF_ERROR(place.CheckKeys({"sha256", "bytes"}));
  PackageFile file;
  const JsonPlace sha256 = place.At("sha256");
  PIPESTAGE_ASSIGN_OR_RETURN(file.sha256, sha256.String());
  const bool hex = std::all_of(
      file.sha256.begin(), file.sha256.end(),
      [](char c) { return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'); });
  if (file.sha256.size() != 64 || !hex) {
    return sha256.Error("expected 64 hex digits in lower case");
  }
  PIPESTAGE_ASSIGN_OR_RETURN(file.bytes,
                             place.At("bytes").Integer(0, INT64_MAX));
  return file;
}

absl::Status ReadFiles(const JsonPlace& place, PackageContract& contract) {
  PIPESTAGE_ASSIGN_OR_RETURN(const auto members, place.Members());
  for (const auto& [path, file_place] : members) {
    PIPESTAGE_ASSIGN_OR_RETURN(contract.files[path], ReadFile(file_place));
  }
  return absl::OkStatus();
}

absl::Status ReadDefaults(const JsonPlace& place, PackageContract& contract) {
  PIPESTAGE_RETURN_IF_ERROR(
      place.CheckKeys({}, {"num_microbatches", "schedule"}));
  if (const auto count = place.Find("num_microbatches")) {
    PIPESTAGE_ASSIGN_OR_RETURN(contract.default_num_microbatches,
                               count->Integer(1, INT32_MAX));
  }
  if (const auto schedule = place.Find("schedule")) {
    PIPESTAGE_ASSIGN_OR_RETURN(contract.default_schedule, schedule->String());
    if (contract.default_schedule.empty()) return schedule->Error("is empty");
  }
  return absl::OkStatus();
}

absl::Status CheckCreatedBy(const JsonPlace& place) {
  PIPESTAGE_RETURN_IF_ERROR(place.CheckKeys({}, {"pipestage", "torch"}));
  PIPESTAGE_ASSIGN_OR_RETURN(const auto members, place.Members());
  for (const auto& [program, version] : members) {
    PIPESTAGE_RETURN_IF_ERROR(version.String().status());
  }
  return absl::OkStatus();
}

// Before all else: of another version, unknown keys are to be expected.
absl::Status CheckFormat(const JsonPlace& document) {
  PIPESTAGE_RETURN_IF_ERROR(document.Members().status());
  const auto place = document.Find("format");
  if (!place) return document.CheckKeys({"format"});
  PIPESTAGE_ASSIGN_OR_RETURN(const std::string format, place->String());
  if (format == kFormat) return absl::OkStatus();
  return place->Error(
      absl::StrCat("is \"", format, "\"; this build reads \"", kFormat, "\""));
}

absl::Status ReadOptionalParts(const JsonPlace& document,
                               PackageContract& contract) {
  if (const auto description = document.Find("description")) {
    PIPESTAGE_ASSIGN_OR_RETURN(contract.description, description->String());
  }
  if (const auto created_by = document.Find("created_by")) {
    PIPESTAGE_RETURN_IF_ERROR(CheckCreatedBy(*created_by));
  }
  if (const auto defaults = document.Find("defaults")) {
    PIPESTAGE_RETURN_IF_ERROR(ReadDefaults(*defaults, contract));
  }
  if (const auto sizes = document.Find("sizes")) {
    PIPESTAGE_ASSIGN_OR_RETURN(contract.sizes, ReadSizes(*sizes));
  }
  if (const auto targets = document.Find("targets")) {
    PIPESTAGE_ASSIGN_OR_RETURN(contract.targets,
                               ReadList(*targets, ReadTensor));
  }
  if (const auto loss = document.Find("loss")) {
    PIPESTAGE_ASSIGN_OR_RETURN(contract.loss, ReadLoss(*loss));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PackageContract> ReadContract(const JsonPlace& document) {
  PIPESTAGE_RETURN_IF_ERROR(CheckFormat(document));
  PIPESTAGE_RETURN_IF_ERROR(document.CheckKeys(
      {"format", "name", "version", "inputs", "outputs", "stages", "files"},
      {"description", "created_by", "defaults", "sizes", "targets", "loss"}));
  PackageContract contract;
  PIPESTAGE_ASSIGN_OR_RETURN(contract.name,
                             ReadPackageName(document.At("name")));
  PIPESTAGE_ASSIGN_OR_RETURN(contract.version,
                             ReadPackageName(document.At("version")));
  PIPESTAGE_ASSIGN_OR_RETURN(contract.inputs,
                             ReadList(document.At("inputs"), ReadTensor));
  PIPESTAGE_ASSIGN_OR_RETURN(contract.outputs,
                             ReadList(document.At("outputs"), ReadTensor));
  PIPESTAGE_ASSIGN_OR_RETURN(contract.stages,
                             ReadList(document.At("stages"), ReadStage));
  for (size_t s = 0; s < contract.stages.size(); ++s) {
    contract.stages[s].index = StageIndex(static_cast<int32_t>(s));
  }
  PIPESTAGE_RETURN_IF_ERROR(ReadFiles(document.At("files"), contract));
  PIPESTAGE_RETURN_IF_ERROR(ReadOptionalParts(document, contract));
  return contract;
}

}  // namespace pipestage
