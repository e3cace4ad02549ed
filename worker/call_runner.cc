#include "worker/call_runner.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

// The call under way and the one behind it.
constexpr size_t kMaxAnnounced = 2;

}  // namespace

CallRunner::CallRunner(Options options, Parts parts)
    : options_(std::move(options)),
      parts_(parts),
      buffers_([loader = parts.loader](
                   size_t size) { return loader->Allocate(size); },
               options_.executor.receive.max_bytes),
      preparer_(parts.plans, parts.models),
      thread_([this] { Loop(); }) {}

CallRunner::~CallRunner() {
  parts_.queue->Stop();
  thread_.join();
}

void CallRunner::Loop() {
  while (true) {
    if (!announced_.empty()) {
      ExecuteNext();
      continue;
    }
    std::optional<RunQueue::Work> work = parts_.queue->Pop();
    if (!work.has_value()) break;
    if (work->form.has_value()) {
      Form(*work->form);
    } else if (absl::Status status = Announce(*std::move(work)); !status.ok()) {
      OnCommunicatorFailed(status);
    }
  }
  EndSession(absl::CancelledError("the worker stops"));
}

void CallRunner::Form(const v1::FormCommunicator& form) {
  EndSession(absl::CancelledError("a new communicator is formed"));
  absl::StatusOr<std::shared_ptr<Communicator>> communicator =
      parts_.slot->Form(form);
  if (communicator.ok()) {
    session_ = std::make_unique<Session>();
    session_->generation = Generation(form.generation());
    session_->communicator = *communicator;
    PlanExecutor::Options executor = options_.executor;
    executor.worker = options_.worker;
    session_->executor = std::make_unique<PlanExecutor>(
        executor, communicator->get(), parts_.loader, &buffers_, parts_.clock);
    PIPESTAGE_LOG_INFO("generation {}: rank {} of {}, over {}",
                       form.generation(), form.rank(), form.num_ranks(),
                       form.backend());
  } else {
    PIPESTAGE_LOG_WARN("generation {}: no communicator: {}", form.generation(),
                       communicator.status().ToString());
    // It was ended from elsewhere, which is no news. To a coordinator that was
    // started again meanwhile it might look like news of its own generation.
    if (absl::IsCancelled(communicator.status())) return;
  }
  v1::WorkerMessage message;
  message.mutable_communicator_formed()->set_generation(form.generation());
  if (!communicator.ok()) {
    *message.mutable_communicator_formed()->mutable_error() =
        ToRpcStatus(communicator.status());
  }
  parts_.outbox->Send(std::move(message));
}

void CallRunner::EndSession(const absl::Status& reason) {
  for (const PreparedCall& call : announced_) {
    parts_.queue->Done(call.inbox->call());
  }
  announced_.clear();
  if (session_ == nullptr) return;
  session_->communicator->Abort(reason);
  session_.reset();
}

absl::Status CallRunner::Announce(RunQueue::Work work) {
  const v1::Run& run = work.run;
  if (session_ == nullptr ||
      session_->generation != Generation(run.generation())) {
    parts_.queue->Done(CallId(run.call_id()));
    return absl::OkStatus();
  }
  PreparedCall call;
  CallPreparer::Refusal refusal =
      preparer_.Prepare(run, std::move(work.inbox), call);
  const Communicator& communicator = *session_->communicator;
  // A model may use fewer ranks than there are.
  if (refusal.error.ok() && (call.plan->rank != communicator.rank() ||
                             call.plan->num_ranks > communicator.size())) {
    refusal.error = WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            "plan ", call.plan->id, " is for rank ", call.plan->rank.value(),
            " of ", call.plan->num_ranks, "; this is rank ",
            communicator.rank().value(), " of ", communicator.size())),
        reason::kPlanInvalid);
  }
  if (refusal.error.ok()) {
    announced_.push_back(std::move(call));
    return session_->executor->Announce(announced_.back());
  }
  Refuse(run, refusal.error);
  if (refusal.everywhere || communicator.size() == 1) return absl::OkStatus();
  // The other ranks go through the call; without us they would be out of step.
  return absl::AbortedError(
      absl::StrCat("call ", run.call_id(),
                   " could not begin here: ", refusal.error.message()));
}

void CallRunner::Refuse(const v1::Run& run, const absl::Status& error) {
  parts_.queue->Done(CallId(run.call_id()));
  v1::ErrorInfo info = GetErrorInfo(error).value_or(v1::ErrorInfo());
  v1::WorkerMessage failed;
  failed.mutable_call_failed()->set_call_id(run.call_id());
  *failed.mutable_call_failed()->mutable_error() = ToRpcStatus(WithReason(
      absl::Status(error.code(), absl::StrCat(error.message(), " (worker ",
                                              options_.worker, ")")),
      info.reason().empty() ? reason::kPlanInvalid
                            : absl::string_view(info.reason()),
      {{"worker", options_.worker}}));
  parts_.outbox->Send(std::move(failed));
  v1::WorkerMessage done;
  done.mutable_call_done()->set_call_id(run.call_id());
  parts_.outbox->Send(std::move(done));
}

// Lets the next call's receives be posted while this one runs.
absl::Status CallRunner::AnnounceMore() {
  while (parts_.queue->MayHaveRun() && announced_.size() < kMaxAnnounced) {
    std::optional<RunQueue::Work> work = parts_.queue->TryPopRun();
    if (!work.has_value()) break;
    PIPESTAGE_RETURN_IF_ERROR(Announce(*std::move(work)));
  }
  return absl::OkStatus();
}

void CallRunner::ExecuteNext() {
  const PreparedCall& call = announced_.front();
  const CallId id = call.inbox->call();
  ResultWriter results(options_.results, call, parts_.outbox, parts_.loader,
                       parts_.clock);
  absl::StatusOr<CallOutcome> outcome = session_->executor->Execute(
      call, results, [this] { return AnnounceMore(); });
  if (!outcome.ok()) {
    OnCommunicatorFailed(outcome.status());
    return;
  }
  results.Finish(*outcome);
  PIPESTAGE_LOG_DEBUG(
      "call {}: complete {}, busy {}, wait {}, wall {}", id.value(),
      outcome->complete, absl::FormatDuration(outcome->busy),
      absl::FormatDuration(outcome->wait), absl::FormatDuration(outcome->wall));
  announced_.pop_front();
  parts_.queue->Done(id);
}

void CallRunner::OnCommunicatorFailed(const absl::Status& error) {
  const Generation generation = session_->generation;
  parts_.slot->End(generation, error);
  // Else the coordinator ended it, and knows.
  const bool is_news = parts_.queue->EndGenerations(generation, error);
  EndSession(error);
  if (!is_news) return;
  PIPESTAGE_LOG_WARN("generation {} is over: {}", generation.value(),
                     error.ToString());
  v1::WorkerMessage message;
  message.mutable_communicator_failed()->set_generation(generation.value());
  *message.mutable_communicator_failed()->mutable_error() = ToRpcStatus(
      GetReason(error).empty() ? WithReason(error, reason::kCommunicatorFailed,
                                            {{"worker", options_.worker}})
                               : error);
  parts_.outbox->Send(std::move(message));
}

}  // namespace pipestage
