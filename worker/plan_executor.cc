#include "worker/plan_executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/output_check.h"

namespace pipestage {

// One call under way.
class PlanExecutor::Execution {
 public:
  Execution(PlanExecutor& executor, const PreparedCall& call, ResultSink& sink)
      : executor_(executor),
        call_(call),
        plan_(*call.prepared),
        sink_(sink),
        slots_(plan_.num_slots()),
        start_(executor.clock_->Now()),
        last_(start_) {}

  absl::StatusOr<CallOutcome> Run(
      absl::FunctionRef<absl::Status()> between_actions) {
    ExpectFeeds();
    CheckWishes();
    for (const PreparedPlan::Action& action : plan_.actions()) {
      PIPESTAGE_RETURN_IF_ERROR(between_actions());
      PIPESTAGE_RETURN_IF_ERROR(NoticeState());
      PIPESTAGE_RETURN_IF_ERROR(Do(action));
    }
    call_.inbox->Discard();
    outcome_.complete = !dead_;
    outcome_.wall = executor_.clock_->Now() - start_;
    return std::move(outcome_);
  }

 private:
  void ExpectFeeds();
  void CheckWishes();
  absl::Status NoticeState();
  absl::Status Do(const PreparedPlan::Action& action);
  absl::Status Forward(const PreparedPlan::Action& action);
  absl::Status SendForward(const PreparedPlan::Action& action);

  // Not for an error of the call: only if the communicator failed.
  absl::Status TakeInput(const PreparedPlan::Action& action,
                         std::vector<StageTensor>& inputs);
  absl::Status TakeFeeds(const PreparedPlan::Action& action,
                         std::vector<StageTensor>& inputs);
  absl::StatusOr<StageTensor> TakeFeed(int argument, MicrobatchIndex m);
  absl::StatusOr<std::vector<StageTensor>> Compute(
      const PreparedPlan::Action& action, std::vector<StageTensor> inputs);
  absl::Status GiveResults(const PreparedPlan::Action& action,
                           const std::vector<StageTensor>& outputs);
  absl::Status GiveLoss(const PreparedPlan::Action& action,
                        const std::vector<StageTensor>& outputs);

  // The call is dead from here on.
  void Die();
  void Fail(const absl::Status& error, const Action* action);
  absl::Status FailOrAbort(const absl::Status& error, const Action& action);

  bool IsLast(StageIndex stage) const {
    return stage.value() + 1 == call_.plan->num_stages();
  }
  // Time since the last lap.
  absl::Duration Lap() {
    const absl::Time now = executor_.clock_->Now();
    return now - std::exchange(last_, now);
  }
  // That it is computed from the last lap on.
  StageActivity::Work WorkOf(const PreparedPlan::Action& action) const {
    return {call_.inbox->call(), action.action.stage, action.action.microbatch,
            last_};
  }
  void NoteForward(const Action& action, absl::Time start);

  PlanExecutor& executor_;
  const PreparedCall& call_;
  const PreparedPlan& plan_;
  ResultSink& sink_;
  std::vector<std::vector<StageTensor>> slots_;
  bool dead_ = false;
  const absl::Time start_;
  absl::Time last_;
  CallOutcome outcome_;
};

void PlanExecutor::Execution::ExpectFeeds() {
  const PackageContract& contract = *call_.model->contract;
  const Microbatches& microbatches = call_.shapes->microbatches();
  const MicrobatchIndex larger(0);
  const MicrobatchIndex smaller(microbatches.count() - 1);
  std::vector<CallInbox::Argument> arguments;
  const auto add = [&](const TensorContract& tensor, int uses) {
    const int index = static_cast<int>(arguments.size());
    arguments.push_back({tensor.name, uses, !tensor.axis.has_value(),
                         call_.shapes->argument(index, larger).bytes,
                         call_.shapes->argument(index, smaller).bytes});
  };
  for (size_t i = 0; i < contract.inputs.size(); ++i) {
    add(contract.inputs[i], plan_.input_uses()[i]);
  }
  const bool takes_targets = plan_.has_last_stage() && call_.wishes.with_loss;
  for (const TensorContract& target : contract.targets) {
    add(target, takes_targets ? 1 : 0);
  }
  call_.inbox->Expect(std::move(arguments), microbatches);
}

// What this rank cannot give makes the call dead before it begins.
void PlanExecutor::Execution::CheckWishes() {
  const PackageContract& contract = *call_.model->contract;
  const std::string model = absl::StrCat(contract.name, "@", contract.version);
  for (int s = 0; s < call_.plan->num_stages(); ++s) {
    const StageIndex stage(s);
    if (call_.plan->owner(stage) != executor_.rank_) continue;
    if (call_.model->stage(stage) != nullptr) continue;
    return Fail(
        WithReason(absl::FailedPreconditionError(absl::StrCat(
                       "stage ", s, " of model ", model, " is not loaded")),
                   reason::kModelNotLoaded),
        nullptr);
  }
  if (!plan_.has_last_stage()) return;
  if (call_.wishes.with_loss && call_.model->loss == nullptr) {
    return Fail(absl::FailedPreconditionError(absl::StrCat(
                    "a loss was asked for; model ", model, " has none")),
                nullptr);
  }
  for (int output : call_.wishes.outputs) {
    if (output >= 0 && output < contract.outputs.size()) continue;
    return Fail(absl::InternalError(
                    absl::StrCat("output ", output, " was asked for; model ",
                                 model, " has ", contract.outputs.size())),
                nullptr);
  }
}

absl::Status PlanExecutor::Execution::NoticeState() {
  switch (call_.inbox->state()) {
    case CallInbox::State::kLive:
      return absl::OkStatus();
    case CallInbox::State::kCancelled:
      Die();
      return absl::OkStatus();
    case CallInbox::State::kAborted:
      return call_.inbox->reason();
  }
  return absl::OkStatus();
}

absl::Status PlanExecutor::Execution::Do(const PreparedPlan::Action& action) {
  switch (action.action.kind) {
    case ActionKind::kForward:
      return Forward(action);
    case ActionKind::kSendForward:
      return SendForward(action);
    case ActionKind::kRecvForward: {
      // Waiting for it is left to its forward.
      const absl::Status status =
          executor_.receives_.Reach(call_.tickets[action.receive]);
      outcome_.wait += Lap();
      return status;
    }
    default:
      PIPESTAGE_CHECK(false);  // refused by PreparedPlan
  }
  return absl::OkStatus();
}

absl::Status PlanExecutor::Execution::Forward(
    const PreparedPlan::Action& action) {
  std::vector<StageTensor> inputs;
  PIPESTAGE_RETURN_IF_ERROR(TakeInput(action, inputs));
  if (!dead_) PIPESTAGE_RETURN_IF_ERROR(TakeFeeds(action, inputs));
  outcome_.wait += Lap();
  if (dead_) return absl::OkStatus();

  const absl::Time start = last_;
  absl::StatusOr<std::vector<StageTensor>> outputs =
      Compute(action, std::move(inputs));
  absl::Status status = outputs.status();
  if (status.ok() && IsLast(action.action.stage)) {
    status = GiveResults(action, *outputs);
  }
  outcome_.busy += Lap();
  NoteForward(action.action, start);
  if (!status.ok()) return FailOrAbort(status, action.action);
  if (action.to >= 0) slots_[action.to] = *std::move(outputs);
  return absl::OkStatus();
}

absl::Status PlanExecutor::Execution::TakeInput(
    const PreparedPlan::Action& action, std::vector<StageTensor>& inputs) {
  if (action.from >= 0) {
    inputs = std::exchange(slots_[action.from], {});
  } else if (action.receive >= 0) {
    PIPESTAGE_ASSIGN_OR_RETURN(
        ReceiveWindow::Received received,
        executor_.receives_.Take(call_.tickets[action.receive]));
    if (received.is_void) Die();
    inputs = std::move(received.tensors);
  }
  return absl::OkStatus();
}

absl::Status PlanExecutor::Execution::TakeFeeds(
    const PreparedPlan::Action& action, std::vector<StageTensor>& inputs) {
  const MicrobatchIndex m = action.action.microbatch;
  const auto& arguments = plan_.arguments(action.action.stage);
  for (const auto* list : {&arguments.positional, &arguments.keywords}) {
    for (int argument : *list) {
      absl::StatusOr<StageTensor> tensor = TakeFeed(argument, m);
      if (!tensor.ok()) return FailOrAbort(tensor.status(), action.action);
      inputs.push_back(*std::move(tensor));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<StageTensor> PlanExecutor::Execution::TakeFeed(
    int argument, MicrobatchIndex m) {
  PIPESTAGE_ASSIGN_OR_RETURN(Buffer bytes, call_.inbox->Take(argument, m));
  const TensorLayout& layout = call_.shapes->argument(argument, m);
  return StageTensor{layout.dtype, layout.shape, std::move(bytes),
                     DeviceKind::kHost};
}

absl::StatusOr<std::vector<StageTensor>> PlanExecutor::Execution::Compute(
    const PreparedPlan::Action& action, std::vector<StageTensor> inputs) {
  const StageIndex stage = action.action.stage;
  const StageActivity::Scope scope(executor_.options_.activity, WorkOf(action));
  PIPESTAGE_ASSIGN_OR_RETURN(std::vector<StageTensor> outputs,
                             call_.model->stage(stage)->Forward(inputs));
  PIPESTAGE_RETURN_IF_ERROR(CheckOutputs(
      stage, outputs,
      call_.shapes->outputs(stage, action.action.microbatch).tensors));
  return outputs;
}

absl::Status PlanExecutor::Execution::GiveResults(
    const PreparedPlan::Action& action,
    const std::vector<StageTensor>& outputs) {
  if (call_.wishes.with_loss) {
    PIPESTAGE_RETURN_IF_ERROR(GiveLoss(action, outputs));
  }
  for (int output : call_.wishes.outputs) {
    PIPESTAGE_RETURN_IF_ERROR(
        sink_.AddOutput(action.action.microbatch, output, outputs[output]));
  }
  return absl::OkStatus();
}

absl::Status PlanExecutor::Execution::GiveLoss(
    const PreparedPlan::Action& action,
    const std::vector<StageTensor>& outputs) {
  const PackageContract& contract = *call_.model->contract;
  const MicrobatchIndex m = action.action.microbatch;
  outcome_.busy += Lap();
  std::vector<StageTensor> targets;
  for (size_t t = 0; t < contract.targets.size(); ++t) {
    const int argument = static_cast<int>(contract.inputs.size() + t);
    PIPESTAGE_ASSIGN_OR_RETURN(StageTensor target, TakeFeed(argument, m));
    targets.push_back(std::move(target));
  }
  outcome_.wait += Lap();
  const StageActivity::Scope scope(executor_.options_.activity, WorkOf(action));
  PIPESTAGE_ASSIGN_OR_RETURN(
      MicrobatchLossValue loss,
      call_.model->loss->Compute(outputs, targets,
                                 call_.shapes->microbatches().rows(m),
                                 call_.wishes.row_losses));
  return sink_.AddLoss(m, std::move(loss));
}

absl::Status PlanExecutor::Execution::SendForward(
    const PreparedPlan::Action& action) {
  const StageIndex stage = action.action.stage;
  const MicrobatchIndex m = action.action.microbatch;
  const MessageHeader header = executor_.HeaderOf(call_, stage, m);
  absl::Status status;
  if (dead_) {
    const MessageLayout& layout = call_.shapes->outputs(stage, m);
    int64_t largest = 0;
    for (const TensorLayout& tensor : layout.tensors) {
      largest = std::max(largest, tensor.bytes);
    }
    PIPESTAGE_ASSIGN_OR_RETURN(const StageTensor filler,
                               executor_.Filler(largest));
    status = executor_.sends_.SendVoid(action.peer, header, layout, filler);
  } else {
    status = executor_.sends_.Send(action.peer, header,
                                   std::exchange(slots_[action.from], {}));
  }
  outcome_.wait += Lap();
  return status;
}

void PlanExecutor::Execution::Die() {
  if (dead_) return;
  dead_ = true;
  for (auto& slot : slots_) slot.clear();
  call_.inbox->Discard();
}

// `action`: during which; null before the first.
void PlanExecutor::Execution::Fail(const absl::Status& error,
                                   const Action* action) {
  Die();
  const std::string worker = absl::StrCat("worker ", executor_.options_.worker,
                                          ", rank ", executor_.rank_.value());
  const std::string rank = absl::StrCat(executor_.rank_.value());
  std::string why = GetReason(error);
  if (why.empty()) why = std::string(reason::kStageFailed);
  if (action == nullptr) {
    sink_.Fail(WithReason(
        absl::Status(error.code(),
                     absl::StrCat(error.message(), " (", worker, ")")),
        why, {{"worker", executor_.options_.worker}, {"rank", rank}}));
    return;
  }
  sink_.Fail(WithReason(
      absl::Status(
          error.code(),
          absl::StrCat("stage ", action->stage.value(),
                       " failed on microbatch ", action->microbatch.value(),
                       " (action ", ToString(*action), ", ", worker,
                       "): ", error.message())),
      why,
      {{"worker", executor_.options_.worker},
       {"rank", rank},
       {"stage", absl::StrCat(action->stage.value())},
       {"microbatch", absl::StrCat(action->microbatch.value())},
       {"action", ToString(*action)}}));
}

// An error of the call may be what a cancelled or aborted inbox answered.
absl::Status PlanExecutor::Execution::FailOrAbort(const absl::Status& error,
                                                  const Action& action) {
  PIPESTAGE_RETURN_IF_ERROR(NoticeState());
  if (!dead_) Fail(error, &action);
  return absl::OkStatus();
}

void PlanExecutor::Execution::NoteForward(const Action& action,
                                          absl::Time start) {
  if (!call_.wishes.timeline) return;
  outcome_.timeline.push_back({action.stage, action.microbatch,
                               absl::ToInt64Microseconds(start - start_),
                               absl::ToInt64Microseconds(last_ - start_)});
}

PlanExecutor::PlanExecutor(Options options, Communicator* communicator,
                           StageLoader* loader, ReceiveBuffers* buffers,
                           Clock* clock)
    : options_(std::move(options)),
      rank_(communicator->rank()),
      loader_(loader),
      clock_(clock),
      receives_(communicator, buffers, loader->device(), options_.receive),
      sends_(communicator, options_.send) {}

MessageHeader PlanExecutor::HeaderOf(const PreparedCall& call, StageIndex stage,
                                     MicrobatchIndex m) const {
  const MessageLayout& layout = call.shapes->outputs(stage, m);
  MessageHeader header;
  header.generation = call.generation;
  header.call = call.inbox->call();
  header.stage = stage;
  header.microbatch = m;
  header.payload_bytes = layout.payload_bytes;
  header.digest = layout.digest;
  return header;
}

absl::Status PlanExecutor::Announce(PreparedCall& call) {
  call.tickets.reserve(call.prepared->receives().size());
  for (const PreparedPlan::Receive& receive : call.prepared->receives()) {
    PIPESTAGE_ASSIGN_OR_RETURN(
        const ReceiveWindow::Ticket ticket,
        receives_.Expect(
            {receive.from, HeaderOf(call, receive.stage, receive.microbatch),
             &call.shapes->outputs(receive.stage, receive.microbatch),
             call.shapes}));
    call.tickets.push_back(ticket);
  }
  return absl::OkStatus();
}

absl::StatusOr<StageTensor> PlanExecutor::Filler(size_t size) {
  if (filler_.data.size() < size) {
    PIPESTAGE_ASSIGN_OR_RETURN(filler_.data, loader_->Allocate(size));
    filler_.device = loader_->device();
    // What other calls left in host memory is nobody's business.
    if (filler_.device == DeviceKind::kHost) {
      std::memset(filler_.data.mutable_data(), 0, size);
    }
  }
  return filler_;
}

absl::StatusOr<CallOutcome> PlanExecutor::Execute(
    const PreparedCall& call, ResultSink& sink,
    absl::FunctionRef<absl::Status()> between_actions) {
  return Execution(*this, call, sink).Run(between_actions);
}

}  // namespace pipestage
