#include "coordinator/model_registry.h"

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/model_ref.h"
#include "coordinator/worker_error.h"

namespace pipestage {
namespace {

void RunAll(std::vector<std::function<void()>>& deferred) {
  for (auto& task : deferred) task();
}

}  // namespace

ModelRegistry::Pin& ModelRegistry::Pin::operator=(Pin&& other) noexcept {
  Release();
  registry_ = std::exchange(other.registry_, nullptr);
  model_ = std::move(other.model_);
  return *this;
}

void ModelRegistry::Pin::Release() {
  if (ModelRegistry* registry = std::exchange(registry_, nullptr)) {
    registry->Unpin(*model_);
  }
}

// ---- calls

absl::Status ModelRegistry::NotLoaded(const v1::ModelRef& ref) const {
  const std::string name = ToString(ref);
  return WithReason(
      absl::NotFoundError(absl::StrCat("model ", name, " is not loaded")),
      reason::kModelNotLoaded,
      {{"model", ref.name()}, {"version", ref.version()}});
}

absl::StatusOr<ModelRegistry::Key> ModelRegistry::Resolve(
    const v1::ModelRef& ref) const {
  const Key* newest = nullptr;
  for (auto it = entries_.lower_bound({ref.name(), ""});
       it != entries_.end() && it->first.first == ref.name(); ++it) {
    if (it->second.phase != Phase::kLoaded) continue;
    if (it->first.second == ref.version()) return it->first;
    if (ref.version().empty() &&
        (newest == nullptr || VersionLess(newest->second, it->first.second))) {
      newest = &it->first;
    }
  }
  if (newest == nullptr) return NotLoaded(ref);
  return *newest;
}

absl::Status ModelRegistry::CheckServed(const Entry& entry,
                                        const PipelineView& view) const {
  const int num_ranks = static_cast<int>(entry.owners.size());
  PIPESTAGE_RETURN_IF_ERROR(CheckAttached(view, num_ranks));
  for (int r = 0; r < num_ranks; ++r) {
    const Owner& owner = entry.owners[r];
    if (owner.holds == view.members[r]->id) continue;
    if (!owner.error.ok()) {
      return WithReason(
          absl::FailedPreconditionError(absl::StrCat(
              entry.model->ToString(),
              " could not be loaded again: ", owner.error.message())),
          reason::kModelNotLoaded, {{"rank", absl::StrCat(r)}});
    }
    return WithReason(absl::UnavailableError(absl::StrCat(
                          entry.model->ToString(), " is being loaded again by ",
                          DescribeWorker(view.members[r]->name, Rank(r)),
                          "; try again in 1s")),
                      reason::kWorkersMissing,
                      {{"rank", absl::StrCat(r)}, {"retry_after_s", "1"}});
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelRegistry::Pin> ModelRegistry::PinForCall(
    const v1::ModelRef& ref) {
  {
    absl::MutexLock lock(&mu_);
    const auto key = Resolve(ref);
    if (key.ok()) {
      Entry& entry = entries_.find(*key)->second;
      PIPESTAGE_RETURN_IF_ERROR(CheckServed(entry, *view_));
      ++entry.pins;
      return Pin(this, entry.model);
    }
  }
  // Not served: say whether it could be, which only the disk knows.
  PIPESTAGE_RETURN_IF_ERROR(CheckModelRef(ref));
  PIPESTAGE_RETURN_IF_ERROR(OpenModel(ref, 0).status());
  absl::MutexLock lock(&mu_);
  return NotLoaded(ref);
}

absl::Status ModelRegistry::CheckServedBy(const PipelineView& view,
                                          const LoadedModel& model) {
  absl::MutexLock lock(&mu_);
  const auto found =
      entries_.find(Key(model.contract().name, model.contract().version));
  // Pinned: it cannot have gone.
  PIPESTAGE_CHECK(found != entries_.end());
  return CheckServed(found->second, view);
}

void ModelRegistry::Unpin(const LoadedModel& model) {
  Deferred deferred;
  {
    absl::MutexLock lock(&mu_);
    const Key key(model.contract().name, model.contract().version);
    const auto found = entries_.find(key);
    if (found == entries_.end() || --found->second.pins > 0) return;
    if (found->second.phase == Phase::kUnloading) FinishUnload(key, deferred);
  }
  RunAll(deferred);
}

// ---- loading

absl::StatusOr<std::string> ModelRegistry::NewestInRepository(
    const std::string& name) const {
  PIPESTAGE_ASSIGN_OR_RETURN(const auto packages,
                             ListPackages(options_.repository));
  for (const PackageListing& package : packages) {
    if (package.name == name) return package.version;
  }
  return WithReason(absl::NotFoundError(absl::StrCat("there is no model ", name,
                                                     " in the repository")),
                    reason::kModelNotFound, {{"model", name}});
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> ModelRegistry::OpenModel(
    const v1::ModelRef& ref, int num_workers) const {
  std::string version = ref.version();
  if (version.empty()) {
    PIPESTAGE_ASSIGN_OR_RETURN(version, NewestInRepository(ref.name()));
  }
  auto model = std::make_shared<LoadedModel>();
  PIPESTAGE_ASSIGN_OR_RETURN(
      model->package,
      ModelPackage::Open(options_.repository, ref.name(), version));
  PIPESTAGE_ASSIGN_OR_RETURN(
      model->placement,
      PlaceStages(static_cast<int>(model->contract().stages.size()),
                  options_.num_workers, num_workers));
  return std::shared_ptr<const LoadedModel>(std::move(model));
}

void ModelRegistry::Load(const v1::ModelRef& ref, int num_workers,
                         Loaded done) {
  if (const absl::Status valid = CheckModelRef(ref); !valid.ok()) {
    done(valid);
    return;
  }
  auto model = OpenModel(ref, num_workers);
  if (!model.ok()) {
    done(model.status());
    return;
  }
  Deferred deferred;
  {
    absl::MutexLock lock(&mu_);
    const Key key(ref.name(), (*model)->contract().version);
    if (!JoinLoad(key, num_workers, done, deferred)) {
      BeginLoad(key, *std::move(model), std::move(done), deferred);
    }
  }
  RunAll(deferred);
}

bool ModelRegistry::JoinLoad(const Key& key, int num_workers, Loaded& done,
                             Deferred& deferred) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  Entry& entry = found->second;
  const auto answer = [&deferred](Loaded done, absl::Status status) {
    deferred.push_back([done = std::move(done), status] { done(status); });
  };
  if (entry.phase == Phase::kUnloading) {
    answer(std::move(done), absl::UnavailableError(absl::StrCat(
                                entry.model->ToString(),
                                " is being unloaded; try again in 1s")));
    return true;
  }
  if (num_workers > 0 && num_workers != entry.model->placement.num_ranks) {
    answer(std::move(done),
           absl::FailedPreconditionError(absl::StrCat(
               entry.model->ToString(), " is on ",
               entry.model->placement.num_ranks,
               " workers; unload it to have it on ", num_workers)));
    return true;
  }
  // A worker that failed to load it again is asked once more.
  for (Owner& owner : entry.owners) {
    if (!owner.error.ok()) owner = Owner();
  }
  entry.load_waiters.push_back(std::move(done));
  AskOwners(key, entry);
  SettleLoad(key, deferred);
  return true;
}

void ModelRegistry::BeginLoad(const Key& key,
                              std::shared_ptr<const LoadedModel> model,
                              Loaded done, Deferred& deferred) {
  Entry& entry = entries_[key];
  entry.owners.resize(model->placement.num_ranks);
  entry.model = std::move(model);
  entry.load_waiters.push_back(std::move(done));
  PIPESTAGE_LOG_INFO("loading {} on {} workers", entry.model->ToString(),
                     entry.owners.size());
  // All owners or none: with one missing nobody is asked.
  if (CheckAttached(*view_, static_cast<int>(entry.owners.size())).ok()) {
    AskOwners(key, entry);
  }
  SettleLoad(key, deferred);
}

const Attachment* ModelRegistry::AttachedAt(int rank) const {
  if (rank >= view_->num_ranks()) return nullptr;
  return view_->members[rank].get();
}

void ModelRegistry::AskOwners(const Key& key, Entry& entry) {
  for (int r = 0; r < static_cast<int>(entry.owners.size()); ++r) {
    const Attachment* attachment = AttachedAt(r);
    Owner& owner = entry.owners[r];
    if (attachment == nullptr || owner.asked == attachment->id) continue;
    owner = Owner();
    owner.asked = attachment->id;
    owner.request = ++last_request_;
    requests_[owner.request] = {key, r};
    v1::CoordinatorMessage message;
    auto* load = message.mutable_load_stages();
    load->set_request_id(owner.request);
    load->set_model(key.first);
    load->set_version(key.second);
    load->set_digest(entry.model->package->digest());
    for (const StageIndex stage : entry.model->placement.StagesOf(Rank(r))) {
      load->add_stages(stage.value());
    }
    attachment->connection->Send(std::move(message));
  }
}

void ModelRegistry::DropGoneOwners(Entry& entry) {
  for (int r = 0; r < static_cast<int>(entry.owners.size()); ++r) {
    Owner& owner = entry.owners[r];
    const Attachment* attachment = AttachedAt(r);
    if (owner.asked == AttachmentId() ||
        (attachment != nullptr && attachment->id == owner.asked)) {
      continue;
    }
    requests_.erase(owner.request);
    owner = Owner();
    if (entry.phase == Phase::kLoading) {
      owner.error =
          WithReason(absl::UnavailableError(absl::StrCat(
                         "the worker at rank ", r, " was lost while it loaded ",
                         entry.model->ToString())),
                     reason::kWorkerLost, {{"rank", absl::StrCat(r)}});
    }
  }
}

void ModelRegistry::SettleLoad(const Key& key, Deferred& deferred) {
  const auto found = entries_.find(key);
  Entry& entry = found->second;
  absl::Status error;
  for (const Owner& owner : entry.owners) {
    if (owner.request != 0) return;
    if (error.ok()) error = owner.error;
  }
  if (error.ok()) error = CheckServed(entry, *view_);
  std::vector<Loaded> waiters = std::exchange(entry.load_waiters, {});
  if (error.ok()) {
    if (entry.phase == Phase::kLoading) {
      PIPESTAGE_LOG_INFO("{} is loaded", entry.model->ToString());
    }
    entry.phase = Phase::kLoaded;
  } else if (entry.phase == Phase::kLoading) {
    PIPESTAGE_LOG_ERROR("{} was not loaded: {}", entry.model->ToString(),
                        std::string(error.message()));
    TellUnload(entry);
    entries_.erase(found);
  }
  for (Loaded& done : waiters) {
    deferred.push_back([this, key, error, done = std::move(done)] {
      if (error.ok()) {
        done(Describe(key));
      } else {
        done(error);
      }
    });
  }
}

void ModelRegistry::TellUnload(const Entry& entry) {
  for (int r = 0; r < static_cast<int>(entry.owners.size()); ++r) {
    const Attachment* attachment = AttachedAt(r);
    // A load that is still under way is undone behind it.
    const Owner& owner = entry.owners[r];
    if (attachment == nullptr || owner.asked != attachment->id ||
        !owner.error.ok()) {
      continue;
    }
    v1::CoordinatorMessage message;
    auto* unload = message.mutable_unload_model();
    unload->set_model(entry.model->contract().name);
    unload->set_version(entry.model->contract().version);
    unload->set_digest(entry.model->package->digest());
    attachment->connection->Send(std::move(message));
  }
}

void ModelRegistry::OnStagesLoaded(const Attachment& from,
                                   const v1::StagesLoaded& loaded) {
  Deferred deferred;
  {
    absl::MutexLock lock(&mu_);
    const auto request = requests_.find(loaded.request_id());
    if (request == requests_.end()) return;
    const auto [key, rank] = request->second;
    Entry& entry = entries_.find(key)->second;
    Owner& owner = entry.owners[rank];
    if (owner.asked != from.id) return;
    requests_.erase(request);
    owner.request = 0;
    const absl::Status error = FromRpcStatus(loaded.error());
    if (error.ok()) {
      owner.holds = from.id;
    } else {
      owner.error = AttributeToWorker(from, error);
    }
    if (entry.phase != Phase::kUnloading) SettleLoad(key, deferred);
  }
  RunAll(deferred);
}

void ModelRegistry::OnViewChanged(
    const std::shared_ptr<const PipelineView>& view) {
  Deferred deferred;
  {
    absl::MutexLock lock(&mu_);
    if (view_->version >= view->version) return;
    view_ = view;
    std::vector<Key> settled;
    for (auto& [key, entry] : entries_) {
      DropGoneOwners(entry);
      if (entry.phase == Phase::kLoaded) AskOwners(key, entry);
      if (entry.phase != Phase::kUnloading) settled.push_back(key);
    }
    for (const Key& key : settled) SettleLoad(key, deferred);
  }
  RunAll(deferred);
}

// ---- unloading

void ModelRegistry::Unload(const v1::ModelRef& ref, Unloaded done) {
  if (ref.version().empty()) {
    done(WithReason(
        absl::InvalidArgumentError("unloading needs the model's version"),
        reason::kInvalidInput));
    return;
  }
  absl::Status refused;
  Deferred deferred;
  {
    absl::MutexLock lock(&mu_);
    const Key key(ref.name(), ref.version());
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
      refused = NotLoaded(ref);
    } else if (found->second.phase == Phase::kLoading) {
      refused = absl::FailedPreconditionError(
          absl::StrCat(ToString(ref), " is being loaded"));
    } else {
      found->second.phase = Phase::kUnloading;
      found->second.unload_waiters.push_back(std::move(done));
      if (found->second.pins == 0) FinishUnload(key, deferred);
    }
  }
  if (!refused.ok()) done(refused);
  RunAll(deferred);
}

void ModelRegistry::FinishUnload(const Key& key, Deferred& deferred) {
  const auto found = entries_.find(key);
  Entry& entry = found->second;
  TellUnload(entry);
  for (const Owner& owner : entry.owners) requests_.erase(owner.request);
  for (Unloaded& done : entry.unload_waiters) {
    deferred.push_back([done = std::move(done)] { done(absl::OkStatus()); });
  }
  for (Loaded& done : entry.load_waiters) {
    deferred.push_back([done = std::move(done)] {
      done(absl::AbortedError("the model was unloaded meanwhile"));
    });
  }
  PIPESTAGE_LOG_INFO("{} is unloaded", entry.model->ToString());
  entries_.erase(found);
}

}  // namespace pipestage
