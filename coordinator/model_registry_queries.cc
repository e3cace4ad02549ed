// What the ModelRegistry tells of itself: listings and states.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/plain_text.h"
#include "base/status_macros.h"
#include "coordinator/model_description.h"
#include "coordinator/model_ref.h"
#include "coordinator/model_registry.h"

namespace pipestage {
namespace {

constexpr int kDefaultPageSize = 100;
constexpr int kMaxPageSize = 1000;

std::string NameOf(const PackageListing& listing) {
  return absl::StrCat(listing.name, "@", listing.version);
}

}  // namespace

void ModelRegistry::FillState(const Entry& entry, v1::Model& model) const {
  const Placement& placement = entry.model->placement;
  model.set_workers(placement.num_ranks);
  model.set_stages_per_worker(placement.stages_per_rank);
  for (int s = 0; s < model.stages_size(); ++s) {
    const int rank = placement.stage_ranks[s].value();
    const Attachment* attachment = AttachedAt(rank);
    model.mutable_stages(s)->set_rank(rank);
    if (attachment != nullptr) {
      model.mutable_stages(s)->set_worker(attachment->name);
    }
  }
  const absl::Status served = CheckServed(entry, *view_);
  model.set_state(entry.phase == Phase::kLoading     ? v1::LOADING
                  : entry.phase == Phase::kUnloading ? v1::UNLOADING
                  : served.ok()                      ? v1::SERVING
                                                     : v1::INTERRUPTED);
  if (model.state() == v1::INTERRUPTED) {
    model.set_problem(ToUtf8(served.message()));
  }
}

v1::Model ModelRegistry::Describe(const Key& key) const {
  v1::ModelRef ref;
  ref.set_name(key.first);
  ref.set_version(key.second);
  auto model = Get(ref);
  if (model.ok()) return *std::move(model);
  v1::Model broken;
  broken.set_name(key.first);
  broken.set_version(key.second);
  broken.set_state(v1::BROKEN);
  broken.set_problem(ToUtf8(model.status().message()));
  return broken;
}

absl::StatusOr<v1::Model> ModelRegistry::Get(const v1::ModelRef& ref) const {
  PIPESTAGE_RETURN_IF_ERROR(CheckModelRef(ref));
  std::string version = ref.version();
  {
    absl::MutexLock lock(&mu_);
    if (version.empty()) {
      const auto key = Resolve(ref);
      if (key.ok()) version = key->second;
    }
    const auto found = entries_.find(Key(ref.name(), version));
    if (found != entries_.end()) {
      v1::Model model = DescribeModel(*found->second.model->package);
      FillState(found->second, model);
      return model;
    }
  }
  if (version.empty()) {
    PIPESTAGE_ASSIGN_OR_RETURN(version, NewestInRepository(ref.name()));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(
      const auto package,
      ModelPackage::Open(options_.repository, ref.name(), version));
  v1::Model model = DescribeModel(*package);
  model.set_state(v1::AVAILABLE);
  return model;
}

absl::StatusOr<v1::ListModelsResponse> ModelRegistry::List(
    const v1::ListModelsRequest& request) const {
  if (request.page_size() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size is ", request.page_size(), "; at least 0"));
  }
  const int page_size = std::min(
      request.page_size() == 0 ? kDefaultPageSize : request.page_size(),
      kMaxPageSize);
  PIPESTAGE_ASSIGN_OR_RETURN(const auto packages,
                             ListPackages(options_.repository));
  auto next = packages.begin();
  if (!request.page_token().empty()) {
    next = std::find_if(packages.begin(), packages.end(), [&](const auto& p) {
      return NameOf(p) == request.page_token();
    });
    if (next == packages.end()) {
      return absl::InvalidArgumentError(
          "page_token is none that ListModels gave, or its model is gone");
    }
  }
  v1::ListModelsResponse response;
  for (; next != packages.end(); ++next) {
    if (response.models_size() == page_size) {
      response.set_next_page_token(NameOf(*next));
      break;
    }
    v1::Model model = Describe({next->name, next->version});
    model.clear_stages();
    model.clear_inputs();
    model.clear_targets();
    model.clear_outputs();
    *response.add_models() = std::move(model);
  }
  return response;
}

bool ModelRegistry::IsRestoring() const {
  absl::MutexLock lock(&mu_);
  for (const auto& [key, entry] : entries_) {
    if (entry.phase != Phase::kLoaded) continue;
    for (const Owner& owner : entry.owners) {
      if (owner.request != 0) return true;
    }
  }
  return false;
}

std::vector<std::string> ModelRegistry::Serving() const {
  absl::MutexLock lock(&mu_);
  std::vector<std::string> serving;
  for (const auto& [key, entry] : entries_) {
    if (entry.phase == Phase::kLoaded && CheckServed(entry, *view_).ok()) {
      serving.push_back(entry.model->ToString());
    }
  }
  return serving;
}

std::vector<std::string> ModelRegistry::StagesAt(Rank rank) const {
  absl::MutexLock lock(&mu_);
  std::vector<std::string> stages;
  const Attachment* attachment = AttachedAt(rank.value());
  if (attachment == nullptr) return stages;
  for (const auto& [key, entry] : entries_) {
    if (rank.value() >= static_cast<int>(entry.owners.size()) ||
        entry.owners[rank.value()].holds != attachment->id) {
      continue;
    }
    for (const StageIndex stage : entry.model->placement.StagesOf(rank)) {
      stages.push_back(
          absl::StrCat(entry.model->ToString(), "/", stage.value()));
    }
  }
  return stages;
}

}  // namespace pipestage
