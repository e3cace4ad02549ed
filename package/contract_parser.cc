#include "package/contract_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "package/valid_name.h"

namespace pipestage {
namespace {

constexpr absl::string_view kFormat = "pipestage.pipeline/1";

absl::StatusOr<std::string> ReadPackageName(const JsonPlace& place) {
  PIPESTAGE_ASSIGN_OR_RETURN(std::string name, place.String());
  if (IsValidName(name)) return name;
  return place.Error(absl::StrCat(
      "\"", name, "\" does not match ^[a-z0-9][a-z0-9._-]{0,127}$"));
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
    PIPESTAGE_RETURN_IF_ERROR(CheckFileName(file_place, path));
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
  PIPESTAGE_ASSIGN_OR_RETURN(const JsonPlace place, document.Require("format"));
  PIPESTAGE_ASSIGN_OR_RETURN(const std::string format, place.String());
  if (format == kFormat) return absl::OkStatus();
  return place.Error(
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
