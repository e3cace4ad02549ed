#include "coordinator/eval_runner.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error_info.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/first_ids.h"

namespace pipestage {
namespace {

// What a reply holds besides its tensors, generously.
constexpr int64_t kReplyBaseBytes = 16 << 10;
constexpr int64_t kLossBytes = 64;
constexpr int64_t kTimelineActionBytes = 48;

int64_t EstimateReply(const EvalSetup& setup, const LoadedModel& model) {
  const int64_t count = setup.microbatches.count();
  const int64_t stages = static_cast<int64_t>(model.contract().stages.size());
  return setup.reply_bytes + kReplyBaseBytes +
         (setup.with_loss ? count * kLossBytes : 0) +
         (setup.timeline ? count * stages * kTimelineActionBytes : 0);
}

// Every refusal says why in a form that programs read.
absl::Status WithDefaultReason(absl::Status status) {
  if (!absl::IsInvalidArgument(status) || !GetReason(status).empty()) {
    return status;
  }
  return WithReason(std::move(status), reason::kInvalidInput);
}

}  // namespace

// Where a call is on its way. A cancel may come at every point of it.
class EvalRunner::Handle {
 public:
  explicit Handle(EvalTask task) : task_(std::move(task)) {}

  // True for the first caller: it answers the client.
  bool TakeAnswer() { return !answered_.exchange(true); }
  bool answered() const { return answered_; }

  // Remembers the call's wait for a place, unless it is answered already.
  void SetWait(Admission::WaitId id) {
    absl::MutexLock lock(&mu_);
    wait_ = id;
  }
  Admission::WaitId wait() {
    absl::MutexLock lock(&mu_);
    return wait_;
  }
  // True if the call may be dispatched: it is not cancelled yet.
  bool BeginDispatch(const std::shared_ptr<EvalCall>& call) {
    absl::MutexLock lock(&mu_);
    if (!cancelled_.ok()) return false;
    call_ = call;
    return true;
  }
  // After Dispatch(): the reason to cancel that came meanwhile.
  absl::Status EndDispatch() {
    absl::MutexLock lock(&mu_);
    dispatched_ = true;
    return cancelled_;
  }
  // The call to cancel; null if it is not dispatched, or just being.
  std::shared_ptr<EvalCall> MarkCancelled(const absl::Status& why) {
    absl::MutexLock lock(&mu_);
    if (cancelled_.ok()) cancelled_ = why;
    return dispatched_ ? call_.lock() : nullptr;
  }
  absl::Status cancelled() {
    absl::MutexLock lock(&mu_);
    return cancelled_;
  }

  EvalTask task_;
  std::atomic<Timers::Id> timer_ = 0;
  v1::Timings timings_;
  bool plan_hit_ = false;

 private:
  std::atomic<bool> answered_ = false;
  absl::Mutex mu_;
  Admission::WaitId wait_ ABSL_GUARDED_BY(mu_) = 0;
  std::weak_ptr<EvalCall> call_ ABSL_GUARDED_BY(mu_);
  bool dispatched_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status cancelled_ ABSL_GUARDED_BY(mu_);
};

std::shared_ptr<EvalRunner::Handle> EvalRunner::Start(EvalTask task) {
  ++open_;
  const absl::Time deadline = task.deadline;
  auto handle = std::make_shared<Handle>(std::move(task));
  auto call = Prepare(handle);
  if (!call.ok()) {
    Finish(handle, WithDefaultReason(call.status()));
    return handle;
  }
  handle->timer_ =
      on_.timers->At(deadline, [this, weak = std::weak_ptr<Handle>(handle)] {
        if (const auto handle = weak.lock()) {
          Cancel(handle,
                 absl::DeadlineExceededError("the call's deadline has passed"));
        }
      });
  const absl::Time entered = on_.clock->Now();
  const auto wait = on_.admission->Enter(
      deadline, [this, handle, call = *std::move(call),
                 entered](absl::StatusOr<Admission::Place> place) {
        handle->timings_.set_queue_s(
            absl::ToDoubleSeconds(on_.clock->Now() - entered));
        const absl::Status status =
            place.ok() ? Run(handle, call, *std::move(place)) : place.status();
        if (!status.ok()) Finish(handle, status);
      });
  handle->SetWait(wait);
  // A cancel that came before the wait was known has ended nothing yet.
  if (const absl::Status why = handle->cancelled(); wait != 0 && !why.ok()) {
    on_.admission->Leave(wait, why);
  }
  return handle;
}

absl::StatusOr<std::shared_ptr<EvalCall>> EvalRunner::Prepare(
    const std::shared_ptr<Handle>& handle) {
  EvalTask& task = handle->task_;
  PIPESTAGE_ASSIGN_OR_RETURN(ModelRegistry::Pin model,
                             on_.models->PinForCall(task.model));
  PIPESTAGE_ASSIGN_OR_RETURN(EvalSetup setup,
                             SetUpEval(*model, task.options, task.inputs));
  PIPESTAGE_RETURN_IF_ERROR(CheckSizes(setup, *model, task.max_reply_bytes));
  const absl::Time before = on_.clock->Now();
  PIPESTAGE_ASSIGN_OR_RETURN(PlanCache::Found found,
                             on_.plans->GetOrCompile(setup.plan));
  handle->timings_.set_plan_s(absl::ToDoubleSeconds(on_.clock->Now() - before));
  handle->plan_hit_ = found.hit;

  const int64_t bytes = setup.reply_bytes +
                        (task.input_reservation ? 0 : task.inputs.size_bytes());
  PIPESTAGE_ASSIGN_OR_RETURN(*task.reservation, on_.admission->Reserve(bytes));
  EvalCall::Options call{.setup = std::move(setup)};
  if (task.input_reservation) {
    call.input_reservation = *std::move(task.input_reservation);
  }
  call.model = std::move(model);
  call.inputs = std::move(task.inputs);
  call.plan = std::move(found.plan);
  call.reply = task.reply;
  call.max_reply_bytes = task.max_reply_bytes;
  call.report_progress = task.on_losses != nullptr;
  call.on_losses = task.on_losses;
  call.on_finished = [this, handle](const EvalCall& finished,
                                    const absl::Status& status) {
    if (status.ok()) FillRan(finished, *handle);
    Finish(handle, status);
  };
  call.clock = on_.clock;
  return std::make_shared<EvalCall>(std::move(call));
}

absl::Status EvalRunner::CheckSizes(const EvalSetup& setup,
                                    const LoadedModel& model,
                                    int64_t max_reply_bytes) const {
  const int64_t reply_bytes = EstimateReply(setup, model);
  if (reply_bytes > max_reply_bytes) {
    return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                          "the reply would have about ", reply_bytes,
                          " bytes; the limit of a message is ", max_reply_bytes,
                          ": use StreamEval, or leave outputs out with "
                          "return_outputs=false")),
                      reason::kMessageTooLarge,
                      {{"actual", absl::StrCat(reply_bytes)},
                       {"expected", absl::StrCat(max_reply_bytes)}});
  }
  for (const OutputLayout& output : setup.outputs) {
    const int64_t part_bytes = output.large_part_bytes + kReplyBaseBytes;
    if (part_bytes <= options_.max_message_bytes) continue;
    return WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "output \"", output.contract->name, "\" of one microbatch has ",
            output.large_part_bytes, " bytes; the limit of a message is ",
            options_.max_message_bytes, ": use more microbatches")),
        reason::kMessageTooLarge,
        {{"actual", absl::StrCat(part_bytes)},
         {"expected", absl::StrCat(options_.max_message_bytes)}});
  }
  return absl::OkStatus();
}

absl::Status EvalRunner::Run(const std::shared_ptr<Handle>& handle,
                             const std::shared_ptr<EvalCall>& call,
                             Admission::Place place) {
  // The pipeline and what its workers hold may have changed while the call
  // waited.
  const auto view = on_.pipeline->view();
  PIPESTAGE_RETURN_IF_ERROR(CheckReady(*view));
  PIPESTAGE_RETURN_IF_ERROR(on_.models->CheckServedBy(*view, call->model()));
  if (!handle->BeginDispatch(call)) return handle->cancelled();
  call->SetPlace(std::move(place));
  PIPESTAGE_RETURN_IF_ERROR(on_.dispatcher->Dispatch(call, *view));
  if (const absl::Status why = handle->EndDispatch(); !why.ok()) {
    on_.dispatcher->Cancel(call, why);
  }
  return absl::OkStatus();
}

void EvalRunner::Cancel(const std::shared_ptr<Handle>& handle,
                        const absl::Status& why) {
  if (handle->answered()) return;
  if (const auto call = handle->MarkCancelled(why)) {
    on_.dispatcher->Cancel(call, why);
  } else if (const Admission::WaitId wait = handle->wait()) {
    on_.admission->Leave(wait, why);
  }
}

void EvalRunner::FillRan(const EvalCall& call, Handle& handle) const {
  v1::Ran& ran = *handle.task_.reply->mutable_ran();
  ran.set_model(call.model().contract().name);
  ran.set_version(call.model().contract().version);
  ran.set_model_digest(call.model().package->digest());
  ran.set_plan_id(call.plan().id);
  ran.set_plan_cache_hit(handle.plan_hit_);
  ran.set_schedule(call.plan().schedule);
  ran.set_workers(call.model().placement.num_ranks);
  ran.set_stages_per_worker(call.model().placement.stages_per_rank);
  ran.set_num_microbatches(call.setup().microbatches.count());
  ran.set_epoch(options_.epoch.value());
  ran.set_generation(call.generation().value());
  ran.set_call_id(
      absl::StrCat(options_.epoch.value(), "-",
                   call.id().value() - IdBeforeFirst(options_.epoch)));
  v1::Timings& timings = *handle.task_.reply->mutable_timings();
  timings.set_queue_s(handle.timings_.queue_s());
  timings.set_plan_s(handle.timings_.plan_s());
  timings.set_total_s(
      absl::ToDoubleSeconds(on_.clock->Now() - handle.task_.arrived));
}

void EvalRunner::Finish(const std::shared_ptr<Handle>& handle,
                        const absl::Status& status) {
  if (!handle->TakeAnswer()) return;
  on_.timers->Cancel(handle->timer_);
  ++(status.ok() ? succeeded_ : failed_);
  if (status.ok()) {
    PIPESTAGE_LOG_DEBUG("eval {} done", handle->task_.reply->ran().call_id());
  } else {
    PIPESTAGE_LOG_INFO("eval of {} failed: {}",
                       std::string(handle->task_.model.name()).substr(0, 128),
                       std::string(status.message()));
  }
  const auto done = std::exchange(handle->task_.done, nullptr);
  handle->task_.on_losses = nullptr;
  handle->task_.reply.reset();
  done(status);
  --open_;
}

}  // namespace pipestage
