#include "worker/torch/stage_weights.h"

#include <cstring>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "tensor/safetensors.h"
#include "worker/torch/torch_errors.h"
#include "worker/torch/torch_tensor.h"

namespace pipestage {
namespace {

absl::Status Broken(absl::string_view what) {
  return absl::FailedPreconditionError(what);
}

// The metadata of a file that ParseSafetensors has accepted.
absl::StatusOr<nlohmann::json> ParseMetadata(absl::string_view file) {
  uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof(size));
  PIPESTAGE_ASSIGN_OR_RETURN(
      nlohmann::json header,
      ParseStrictJson(file.substr(sizeof(size), size), /*max_depth=*/4));
  const auto metadata = header.find("__metadata__");
  if (metadata == header.end()) return nlohmann::json::object();
  if (!metadata->is_object()) return Broken("__metadata__ is no object");
  return *metadata;
}

// "alias:<name>": "<name written>".
absl::Status AddAliases(const nlohmann::json& metadata, StageWeights& weights) {
  for (const auto& [key, value] : metadata.items()) {
    absl::string_view name = key;
    if (!absl::ConsumePrefix(&name, "alias:")) continue;
    const std::string written =
        value.is_string() ? value.get<std::string>() : "";
    const auto it = weights.find(written);
    if (it == weights.end()) {
      return Broken(absl::StrCat(name, " is an alias of \"", written,
                                 "\", which the file does not hold"));
    }
    const at::Tensor tensor = it->second;
    if (!weights.emplace(std::string(name), tensor).second) {
      return Broken(absl::StrCat(name, " is both a tensor and an alias"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StageWeights> LoadWeights(
    const std::shared_ptr<const MappedFile>& file, c10::Device device) {
  const Buffer bytes(file, const_cast<char*>(file->data()), file->size());
  const auto tensors = ParseSafetensors(bytes);
  if (!tensors.ok()) return Broken(tensors.status().message());
  const auto metadata = ParseMetadata(file->bytes());
  if (!metadata.ok()) return Broken(metadata.status().message());
  return CallTorch("loading weights", [&]() -> absl::StatusOr<StageWeights> {
    StageWeights weights;
    for (const auto& [name, tensor] : *tensors) {
      weights[name] = ToTorch(StageTensor::FromHost(tensor), c10::kCPU)
                          .to(device, /*non_blocking=*/false, /*copy=*/true);
    }
    PIPESTAGE_RETURN_IF_ERROR(AddAliases(*metadata, weights));
    return weights;
  });
}

int64_t WeightBytes(const StageWeights& weights) {
  std::set<const void*> seen;
  int64_t bytes = 0;
  for (const auto& [name, tensor] : weights) {
    if (seen.insert(tensor.unsafeGetTensorImpl()).second) {
      bytes += static_cast<int64_t>(tensor.nbytes());
    }
  }
  return bytes;
}

}  // namespace pipestage
