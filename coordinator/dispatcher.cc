#include "coordinator/dispatcher.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/feeds.h"

namespace pipestage {
namespace {

// The feeds of one rank that do not ride on its Run.
class CallFeeds final : public FeedSource {
 public:
  CallFeeds(std::shared_ptr<EvalCall> call, std::vector<Feed> feeds)
      : call_(std::move(call)), feeds_(std::move(feeds)) {}

  std::optional<FeedMessage> Next() override {
    if (next_ == feeds_.size() || !call_->wants_feeds()) return std::nullopt;
    auto message =
        MakeFeedMessage(feeds_[next_++], call_->setup().microbatches);
    // PlanFeeds cuts within the tensor that was bound; nothing else can fail.
    PIPESTAGE_CHECK(message.ok());
    message->header.set_call_id(call_->id().value());
    return *std::move(message);
  }

 private:
  const std::shared_ptr<EvalCall> call_;
  const std::vector<Feed> feeds_;
  size_t next_ = 0;
};

v1::CoordinatorMessage MakeRun(const EvalCall& call) {
  const EvalSetup& setup = call.setup();
  v1::CoordinatorMessage message;
  v1::Run& run = *message.mutable_run();
  run.set_plan_id(call.plan().id);
  run.set_model(call.model().contract().name);
  run.set_version(call.model().contract().version);
  run.set_digest(call.model().package->digest());
  run.set_rows(setup.binding.rows);
  for (const auto& [name, size] : setup.binding.sizes.all()) {
    if (name == kRowsName) continue;
    auto* named = run.add_sizes();
    named->set_name(name);
    named->set_size(size);
  }
  for (const OutputLayout& output : setup.outputs) {
    run.add_outputs(output.output);
  }
  run.set_with_loss(setup.with_loss);
  run.set_row_losses(setup.row_losses);
  run.set_timeline(setup.timeline);
  run.set_report_progress(call.report_progress());
  return message;
}

// Puts the first of `feeds` on the Run while they are small; how many.
absl::StatusOr<size_t> LetRide(const std::vector<Feed>& feeds,
                               const Microbatches& microbatches, size_t limit,
                               v1::Run& run) {
  size_t count = 0;
  size_t bytes = 0;
  for (; count < feeds.size(); ++count) {
    bytes += feeds[count].size_bytes;
    if (bytes > limit) break;
    PIPESTAGE_ASSIGN_OR_RETURN(FeedMessage feed,
                               MakeFeedMessage(feeds[count], microbatches));
    auto* riding = run.add_feeds();
    *riding = std::move(feed.header);
    riding->set_data(feed.data.data(), feed.data.size());
  }
  return count;
}

absl::Status CauseOfEnd(const PipelineView& view) {
  if (!view.leaving.empty()) return CheckReady(view);
  if (!view.last_failure.ok()) return view.last_failure;
  return absl::UnavailableError("the pipeline was formed anew; try again");
}

CallId CallOf(const v1::WorkerMessage& message) {
  switch (message.kind_case()) {
    case v1::WorkerMessage::kCallFailed:
      return CallId(message.call_failed().call_id());
    case v1::WorkerMessage::kLosses:
      return CallId(message.losses().call_id());
    case v1::WorkerMessage::kOutput:
      return CallId(message.output().call_id());
    case v1::WorkerMessage::kCallDone:
      return CallId(message.call_done().call_id());
    default:
      return CallId(-1);
  }
}

}  // namespace

absl::StatusOr<std::vector<Dispatcher::RankMessages>> Dispatcher::MakeMessages(
    const std::shared_ptr<EvalCall>& call) const {
  const LoadedModel& model = call->model();
  const Microbatches& microbatches = call->setup().microbatches;
  auto feeds =
      PlanFeeds(model.contract(), call->plan(), microbatches, call->inputs());
  const v1::CoordinatorMessage run = MakeRun(*call);
  std::vector<RankMessages> messages(model.placement.num_ranks);
  for (size_t r = 0; r < messages.size(); ++r) {
    messages[r].run = run;
    PIPESTAGE_ASSIGN_OR_RETURN(
        const size_t riding,
        LetRide(feeds[r], microbatches, options_.riding_bytes,
                *messages[r].run.mutable_run()));
    feeds[r].erase(feeds[r].begin(), feeds[r].begin() + riding);
    if (!feeds[r].empty()) {
      messages[r].feeds =
          std::make_unique<CallFeeds>(call, std::move(feeds[r]));
    }
  }
  return messages;
}

absl::Status Dispatcher::Dispatch(const std::shared_ptr<EvalCall>& call,
                                  const PipelineView& view) {
  PIPESTAGE_RETURN_IF_ERROR(CheckReady(view));
  PIPESTAGE_ASSIGN_OR_RETURN(auto messages, MakeMessages(call));
  std::shared_ptr<const PipelineView> now;
  {
    absl::MutexLock lock(&order_mu_);
    call->Begin(++last_call_, view);
    {
      absl::MutexLock calls_lock(&calls_mu_);
      calls_[call->id()] = call;
    }
    // In this order: a generation that ends from here on finds the call.
    now = pipeline_->view();
    if (now->Serves(view.generation) && now->ready()) {
      SendAll(*call, view, messages);
      return absl::OkStatus();
    }
  }
  Settle(call, call->EndGeneration(CauseOfEnd(*now)));
  return absl::OkStatus();
}

void Dispatcher::SendAll(const EvalCall& call, const PipelineView& view,
                         std::vector<RankMessages>& messages) {
  for (size_t r = 0; r < messages.size(); ++r) {
    const Attachment& worker = *view.members[r];
    Install(call.plan(), worker);
    v1::Run& run = *messages[r].run.mutable_run();
    run.set_call_id(call.id().value());
    run.set_generation(view.generation.value());
    for (auto& feed : *run.mutable_feeds()) feed.set_call_id(call.id().value());
    worker.connection->Send(std::move(messages[r].run));
  }
  for (size_t r = 0; r < messages.size(); ++r) {
    if (messages[r].feeds == nullptr) continue;
    view.members[r]->connection->SendFeeds(std::move(messages[r].feeds));
  }
}

void Dispatcher::Install(const Plan& plan, const Attachment& worker) {
  Installed& installed = installed_[worker.id];
  const auto found = installed.index.find(plan.id);
  if (found != installed.index.end()) {
    installed.plans.splice(installed.plans.begin(), installed.plans,
                           found->second);
    return;
  }
  v1::CoordinatorMessage message;
  *message.mutable_install_plan()->mutable_plan() =
      EncodeRankPlan(plan, worker.rank);
  worker.connection->Send(std::move(message));
  installed.plans.push_front(plan.id);
  installed.index[plan.id] = installed.plans.begin();
  if (installed.plans.size() <= options_.max_installed_plans) return;
  v1::CoordinatorMessage forget;
  forget.mutable_forget_plan()->set_plan_id(installed.plans.back());
  worker.connection->Send(std::move(forget));
  installed.index.erase(installed.plans.back());
  installed.plans.pop_back();
}

std::shared_ptr<EvalCall> Dispatcher::Find(CallId id) const {
  absl::MutexLock lock(&calls_mu_);
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : found->second;
}

int Dispatcher::num_calls() const {
  absl::MutexLock lock(&calls_mu_);
  return static_cast<int>(calls_.size());
}

void Dispatcher::Cancel(const std::shared_ptr<EvalCall>& call,
                        const absl::Status& why) {
  Settle(call, call->Cancel(why));
}

void Dispatcher::CancelAll(const absl::Status& why) {
  std::vector<std::shared_ptr<EvalCall>> calls;
  {
    absl::MutexLock lock(&calls_mu_);
    for (const auto& [id, call] : calls_) calls.push_back(call);
  }
  for (const auto& call : calls) Cancel(call, why);
}

void Dispatcher::OnCallMessage(const Attachment& from,
                               v1::WorkerMessage& message) {
  const std::shared_ptr<EvalCall> call = Find(CallOf(message));
  if (call == nullptr) {
    ++num_stale_;
    return;
  }
  if (message.has_call_failed()) {
    const absl::Status error = FromRpcStatus(message.call_failed().error());
    // Not the call's own failure; a lost neighbour may be behind it.
    if (GetReason(error) == reason::kCommunicatorFailed) {
      pipeline_->ReportFailure(from, call->generation(), error);
      return;
    }
  }
  Settle(call, call->OnMessage(from, message));
}

void Dispatcher::OnIdle(const Attachment& from, absl::Time since) {
  std::shared_ptr<EvalCall> forgotten;
  {
    absl::MutexLock lock(&calls_mu_);
    for (const auto& [id, call] : calls_) {
      if (call->IsOwedBy(from, since)) forgotten = call;
    }
  }
  if (forgotten == nullptr) return;
  pipeline_->ReportFailure(
      from, forgotten->generation(),
      absl::InternalError(absl::StrCat(
          DescribeWorker(from.name, from.rank),
          " says that it has no calls, but has not ended call ",
          forgotten->id().value() - IdBeforeFirst(options_.epoch))));
}

void Dispatcher::OnViewChanged(const PipelineView& view) {
  std::vector<std::shared_ptr<EvalCall>> ended;
  {
    absl::MutexLock lock(&calls_mu_);
    for (const auto& [id, call] : calls_) {
      if (call->IsEndedBy(view)) ended.push_back(call);
    }
  }
  for (const auto& call : ended) {
    Settle(call, call->EndGeneration(CauseOfEnd(view)));
  }
  ForgetGoneWorkers(view);
}

void Dispatcher::ForgetGoneWorkers(const PipelineView& view) {
  absl::flat_hash_set<AttachmentId> members;
  AttachmentId newest;
  for (const auto& member : view.members) {
    if (member == nullptr) continue;
    members.insert(member->id);
    newest = std::max(newest, member->id);
  }
  absl::MutexLock lock(&order_mu_);
  // A worker that attached after this view is no member of it, nor gone.
  absl::erase_if(installed_, [&](const auto& entry) {
    return entry.first < newest && !members.contains(entry.first);
  });
}

void Dispatcher::Settle(const std::shared_ptr<EvalCall>& call,
                        EvalCall::Outcome outcome) {
  if (!outcome.accepted) ++num_stale_;
  if (!outcome.released) return;
  {
    absl::MutexLock lock(&calls_mu_);
    calls_.erase(call->id());
  }
  call->Release();
}

}  // namespace pipestage
