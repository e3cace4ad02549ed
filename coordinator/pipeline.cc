#include "coordinator/pipeline.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_info.h"
#include "base/log.h"
#include "base/plain_text.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

std::string AfterFailure(const PipelineView& view) {
  if (view.last_failure.ok()) return "";
  return absl::StrCat("; before: ", view.last_failure.message());
}

v1::PipelineState ToProto(Membership::State state) {
  switch (state) {
    case Membership::State::kWaiting:
      return v1::WAITING_FOR_WORKERS;
    case Membership::State::kForming:
      return v1::FORMING;
    case Membership::State::kReady:
      return v1::READY;
  }
  return v1::PIPELINE_STATE_UNSPECIFIED;
}

void LogView(const PipelineView& view) {
  int attached = 0;
  for (const auto& member : view.members) attached += member != nullptr;
  PIPESTAGE_LOG_INFO(
      "pipeline {}: generation {}, {} of {} workers attached{}{}",
      v1::PipelineState_Name(ToProto(view.state)), view.generation.value(),
      attached, view.num_ranks(),
      view.leaving.empty() ? "" : absl::StrCat("; leaving: ", view.leaving),
      view.state == Membership::State::kReady ? "" : AfterFailure(view));
}

}  // namespace

absl::Status CheckAttached(const PipelineView& view, int num_ranks) {
  std::vector<std::string> missing;
  for (int r = 0; r < num_ranks; ++r) {
    if (r >= view.num_ranks() || view.members[r] == nullptr) {
      missing.push_back(absl::StrCat(r));
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(
          absl::StrCat("the pipeline lacks ", missing.size(), " of ", num_ranks,
                       " workers: ", missing.size() == 1 ? "rank " : "ranks ",
                       absl::StrJoin(missing, ", "), AfterFailure(view))),
      reason::kWorkersMissing,
      {{"expected", absl::StrCat(num_ranks)},
       {"actual", absl::StrCat(num_ranks - missing.size())},
       {"rank", absl::StrJoin(missing, ",")}});
}

absl::Status CheckReady(const PipelineView& view) {
  PIPESTAGE_RETURN_IF_ERROR(CheckAttached(view, view.num_ranks()));
  if (view.ready()) return absl::OkStatus();
  if (!view.leaving.empty()) {
    return WithReason(
        absl::UnavailableError(absl::StrCat(
            view.leaving,
            " is leaving; calls that run are finished, new ones "
            "are taken when all ranks have workers again; try again in 1s")),
        reason::kWorkersMissing, {{"retry_after_s", "1"}});
  }
  return WithReason(
      absl::UnavailableError(absl::StrCat("all ", view.num_ranks(),
                                          " workers are attached and join a "
                                          "communicator; try again in 1s",
                                          AfterFailure(view))),
      reason::kWorkersMissing, {{"retry_after_s", "1"}});
}

Pipeline::Pipeline(Membership::Options options, Clock* clock,
                   WorkerEvents* events)
    : clock_(clock), events_(events), membership_(std::move(options)) {
  absl::MutexLock lock(&mu_);
  view_ = MakeView();
}

absl::StatusOr<std::shared_ptr<const Attachment>> Pipeline::Attach(
    const v1::Hello& hello, std::shared_ptr<WorkerConnection> connection) {
  auto attachment = std::make_shared<Attachment>();
  std::shared_ptr<const PipelineView> view;
  {
    absl::MutexLock lock(&mu_);
    Membership::Effects effects;
    attachment->id = ++last_attachment_;
    PIPESTAGE_ASSIGN_OR_RETURN(
        attachment->rank,
        membership_.Attach(attachment->id, hello, clock_->Now(), effects));
    attachment->name = membership_.Find(attachment->id)->name;
    attachment->incarnation = Incarnation(hello.incarnation());
    attachment->connection = std::move(connection);
    attachments_[attachment->id] = attachment;
    view = Apply(effects);
  }
  PIPESTAGE_LOG_INFO("{} attached, incarnation {}, device {}",
                     DescribeWorker(attachment->name, attachment->rank),
                     hello.incarnation(), hello.device());
  Announce(view);
  return std::shared_ptr<const Attachment>(std::move(attachment));
}

void Pipeline::Detach(const Attachment& attachment, const absl::Status& why) {
  std::shared_ptr<const PipelineView> view;
  bool has_left = false;  // as it said, or was told
  {
    absl::MutexLock lock(&mu_);
    if (attachments_.erase(attachment.id) == 0) return;
    const Membership::Member* member = membership_.Find(attachment.id);
    has_left = member != nullptr && member->leaving;
    Membership::Effects effects;
    membership_.Detach(attachment.id, why, clock_->Now(), effects);
    view = Apply(effects);
  }
  if (has_left) {
    PIPESTAGE_LOG_INFO("{} has left",
                       DescribeWorker(attachment.name, attachment.rank));
  } else {
    PIPESTAGE_LOG_WARN("{} detached: {}",
                       DescribeWorker(attachment.name, attachment.rank),
                       std::string(why.message()));
  }
  Announce(view);
}

void Pipeline::OnMessage(const Attachment& from, v1::WorkerMessage& message) {
  std::shared_ptr<const PipelineView> view;
  bool consumed;
  std::optional<absl::Time> idle_since;
  {
    absl::MutexLock lock(&mu_);
    // A replaced attachment's last words change nothing.
    if (!attachments_.contains(from.id)) return;
    membership_.Heard(from.id, clock_->Now());
    idle_since = IdleSince(message);
    Membership::Effects effects;
    consumed = UpdateMembership(from, message, effects);
    view = Apply(effects);
  }
  Announce(view);
  if (idle_since) events_->OnIdle(from, *idle_since);
  if (consumed) return;
  if (message.has_stages_loaded()) {
    events_->OnStagesLoaded(from, message.stages_loaded());
  } else {
    events_->OnCallMessage(from, message);
  }
}

std::optional<absl::Time> Pipeline::IdleSince(
    const v1::WorkerMessage& message) const {
  if (!message.has_pong() || message.pong().calls() > 0) return std::nullopt;
  return membership_.SentBefore(message.pong());
}

bool Pipeline::UpdateMembership(const Attachment& from,
                                v1::WorkerMessage& message,
                                Membership::Effects& effects) {
  const absl::Time now = clock_->Now();
  switch (message.kind_case()) {
    case v1::WorkerMessage::kCommunicatorFormed:
      membership_.OnFormed(from.id, message.communicator_formed(), now,
                           effects);
      return true;
    case v1::WorkerMessage::kCommunicatorFailed:
      membership_.OnFailed(
          from.id, Generation(message.communicator_failed().generation()),
          FromRpcStatus(message.communicator_failed().error()), now, effects);
      return true;
    case v1::WorkerMessage::kPong:
      membership_.OnPong(from.id, message.pong(), now);
      return true;
    case v1::WorkerMessage::kLeaving:
      PIPESTAGE_LOG_INFO("{} is leaving{}: {}",
                         DescribeWorker(from.name, from.rank),
                         message.leaving().at_once() ? " at once" : "",
                         ToUtf8(message.leaving().reason(), 512));
      membership_.OnLeaving(from.id, message.leaving(), now, effects);
      return true;
    case v1::WorkerMessage::kStoreSet:
      OnStoreSet(from, *message.mutable_store_set(), effects);
      return true;
    case v1::WorkerMessage::kStoreGet:
      OnStoreGet(from, message.store_get(), effects);
      return true;
    case v1::WorkerMessage::kHello:  // said once, before Attach
    case v1::WorkerMessage::KIND_NOT_SET:
      return true;
    default:
      return false;
  }
}

void Pipeline::OnStoreSet(const Attachment& from, v1::StoreSet& set,
                          Membership::Effects& effects) {
  auto waiters = store_.Set(set.key(), set.value());
  if (!waiters.ok()) {
    OnStoreError(from, waiters.status(), effects);
    return;
  }
  for (const auto& waiter : *waiters) {
    v1::CoordinatorMessage answer;
    answer.mutable_store_value()->set_request_id(waiter.request_id);
    answer.mutable_store_value()->set_value(set.value());
    effects.messages.emplace_back(waiter.attachment, std::move(answer));
  }
}

void Pipeline::OnStoreGet(const Attachment& from, const v1::StoreGet& get,
                          Membership::Effects& effects) {
  auto value = store_.Get(get.key(), {from.id, get.request_id()});
  if (!value.ok()) {
    OnStoreError(from, value.status(), effects);
    return;
  }
  if (!value->has_value()) return;
  v1::CoordinatorMessage answer;
  answer.mutable_store_value()->set_request_id(get.request_id());
  answer.mutable_store_value()->set_value(**value);
  effects.messages.emplace_back(from.id, std::move(answer));
}

void Pipeline::OnStoreError(const Attachment& from, const absl::Status& error,
                            Membership::Effects& effects) {
  // A key of an older generation is a message that was on its way.
  if (absl::IsFailedPrecondition(error)) return;
  membership_.OnFailed(from.id, membership_.generation(), error, clock_->Now(),
                       effects);
}

void Pipeline::ReportFailure(const Attachment& from, Generation generation,
                             const absl::Status& error) {
  std::shared_ptr<const PipelineView> view;
  {
    absl::MutexLock lock(&mu_);
    Membership::Effects effects;
    membership_.OnFailed(from.id, generation, error, clock_->Now(), effects);
    view = Apply(effects);
  }
  Announce(view);
}

void Pipeline::Tick() {
  std::shared_ptr<const PipelineView> view;
  {
    absl::MutexLock lock(&mu_);
    Membership::Effects effects;
    membership_.Tick(clock_->Now(), effects);
    view = Apply(effects);
  }
  Announce(view);
}

std::shared_ptr<const PipelineView> Pipeline::Apply(
    Membership::Effects& effects) {
  if (effects.changed && (membership_.generation() != store_generation_ ||
                          membership_.store_prefix().empty())) {
    store_generation_ = membership_.generation();
    store_.Begin(membership_.store_prefix());
  }
  for (auto& [id, message] : effects.messages) {
    const auto found = attachments_.find(id);
    if (found != attachments_.end()) {
      found->second->connection->Send(std::move(message));
    }
  }
  for (auto& [id, status] : effects.closes) {
    const auto found = attachments_.find(id);
    if (found == attachments_.end()) continue;
    found->second->connection->Close(status);
    attachments_.erase(found);
  }
  if (!effects.changed) return nullptr;
  view_ = MakeView();
  return view_;
}

std::shared_ptr<const PipelineView> Pipeline::MakeView() {
  auto view = std::make_shared<PipelineView>();
  view->version = view_ == nullptr ? 1 : view_->version + 1;
  view->state = membership_.state();
  view->generation = membership_.generation();
  view->last_failure = membership_.last_failure();
  view->leaving = membership_.Leaving();
  for (const auto& member : membership_.members()) {
    const auto found =
        member ? attachments_.find(member->attachment) : attachments_.end();
    view->members.push_back(found == attachments_.end() ? nullptr
                                                        : found->second);
  }
  return view;
}

void Pipeline::Announce(const std::shared_ptr<const PipelineView>& view) {
  if (view == nullptr) return;
  LogView(*view);
  events_->OnViewChanged(view);
}

void Pipeline::DismissLeaving() {
  absl::MutexLock lock(&mu_);
  Membership::Effects effects;
  membership_.DismissLeaving(effects);
  (void)Apply(effects);
}

void Pipeline::ShutDownWorkers(const std::string& reason) {
  absl::MutexLock lock(&mu_);
  Membership::Effects effects;
  membership_.DismissAll(reason, effects);
  (void)Apply(effects);
}

std::shared_ptr<const PipelineView> Pipeline::view() const {
  absl::MutexLock lock(&mu_);
  return view_;
}

void Pipeline::FillStatus(v1::Status& status) const {
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_->Now();
  status.set_state(membership_.Leaving().empty() ? ToProto(membership_.state())
                                                 : v1::WAITING_FOR_WORKERS);
  status.set_generation(membership_.generation().value());
  status.set_workers_expected(membership_.num_ranks());
  status.set_last_failure(std::string(membership_.last_failure().message()));
  for (const auto& member : membership_.members()) {
    if (!member) continue;
    auto* worker = status.add_workers();
    worker->set_rank(member->rank.value());
    worker->set_name(member->name);
    worker->set_device(member->device);
    worker->set_incarnation(member->incarnation.value());
    worker->set_attached_s(absl::ToDoubleSeconds(now - member->attached_at));
    worker->set_resident_bytes(member->resident_bytes);
    worker->set_ping_s(absl::ToDoubleSeconds(member->round_trip));
    worker->set_backend(membership_.backend());
    worker->set_leaving(member->leaving);
    if (!member->computing) continue;
    worker->mutable_computing()->set_stage(member->computing->stage());
    worker->mutable_computing()->set_microbatch(
        member->computing->microbatch());
    worker->mutable_computing()->set_seconds(member->computing->seconds());
  }
}

}  // namespace pipestage
