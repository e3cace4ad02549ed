#include "worker/torch/module_registry.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"

namespace pipestage {

ModuleRegistry& ModuleRegistry::Global() {
  static ModuleRegistry* const registry = new ModuleRegistry();
  return *registry;
}

bool ModuleRegistry::Register(const std::string& name, ModuleFactory factory) {
  absl::MutexLock lock(&mu_);
  const bool is_new = factories_.emplace(name, std::move(factory)).second;
  PIPESTAGE_CHECK(is_new);
  return true;
}

absl::StatusOr<ModuleFactory> ModuleRegistry::Find(
    const std::string& name) const {
  absl::MutexLock lock(&mu_);
  const auto it = factories_.find(name);
  if (it != factories_.end()) return it->second;
  return absl::FailedPreconditionError(absl::StrCat(
      "no module \"", name, "\" is registered in this worker; there are: ",
      absl::StrJoin(factories_, ", ", [](std::string* out, const auto& entry) {
        absl::StrAppend(out, entry.first);
      })));
}

absl::Status CheckParams(const nlohmann::json& params,
                         absl::Span<const char* const> known) {
  for (const auto& [key, value] : params.items()) {
    const bool is_known =
        std::find(known.begin(), known.end(), key) != known.end();
    if (!is_known) {
      return absl::FailedPreconditionError(
          absl::StrCat("unknown parameter \"", key,
                       "\"; there are: ", absl::StrJoin(known, ", ")));
    }
  }
  return absl::OkStatus();
}

}  // namespace pipestage
