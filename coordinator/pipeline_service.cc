#include "coordinator/pipeline_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error_info.h"
#include "base/grpc_status.h"
#include "coordinator/rpc_deadline.h"
#include "coordinator/stream_eval.h"

namespace pipestage {
namespace {

struct UnaryMessages {
  Admission::Reservation reservation;  // for both
  v1::EvalRequest request;
  v1::EvalResponse response;
};

// gRPC's hold on the messages of a call, one of several.
class UnaryHolder final
    : public grpc::MessageHolder<v1::EvalRequest, v1::EvalResponse> {
 public:
  UnaryHolder() : messages_(std::make_shared<UnaryMessages>()) {
    set_request(&messages_->request);
    set_response(&messages_->response);
  }

  void Release() override { delete this; }

  const std::shared_ptr<UnaryMessages>& messages() const { return messages_; }

 private:
  const std::shared_ptr<UnaryMessages> messages_;
};

absl::Status CheckReplySize(const v1::EvalResponse& reply, int64_t limit) {
  const auto size = static_cast<int64_t>(reply.ByteSizeLong());
  if (size <= limit) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          "the reply has ", size, " bytes; the limit of a message is ", limit,
          ": use StreamEval, or return_outputs=false")),
      reason::kMessageTooLarge,
      {{"actual", absl::StrCat(size)}, {"expected", absl::StrCat(limit)}});
}

class UnaryEval final : public grpc::ServerUnaryReactor {
 public:
  UnaryEval(EvalRunner* runner, Clock* clock, absl::Time deadline)
      : runner_(runner), clock_(clock), deadline_(deadline) {}

  void Begin(std::shared_ptr<UnaryMessages> messages, int64_t max_bytes) {
    EvalTask task;
    task.arrived = clock_->Now();
    task.deadline = deadline_;
    auto inputs = BorrowInputs(messages->request, messages);
    if (!inputs.ok()) {
      Finish(ToGrpcStatus(inputs.status()));
      return;
    }
    task.model = messages->request.model();
    task.options = messages->request.options();
    task.inputs = *std::move(inputs);
    task.max_reply_bytes = max_bytes;
    task.reply = {messages, &messages->response};
    task.reservation = &messages->reservation;
    task.done = [this, messages, max_bytes](const absl::Status& status) {
      Finish(ToGrpcStatus(status.ok()
                              ? CheckReplySize(messages->response, max_bytes)
                              : status));
    };
    handle_ = runner_->Start(std::move(task));
  }

  void OnCancel() override {
    if (handle_ == nullptr) return;
    runner_->Cancel(handle_, CauseOfCancel(deadline_, clock_->Now()));
  }

  void OnDone() override { delete this; }

 private:
  EvalRunner* const runner_;
  Clock* const clock_;
  const absl::Time deadline_;
  // Set before gRPC knows this reactor, and with it before OnCancel.
  std::shared_ptr<EvalRunner::Handle> handle_;
};

}  // namespace

class PipelineServiceImpl::Allocator final
    : public grpc::MessageAllocator<v1::EvalRequest, v1::EvalResponse> {
 public:
  grpc::MessageHolder<v1::EvalRequest, v1::EvalResponse>* AllocateMessages()
      override {
    return new UnaryHolder;
  }
};

PipelineServiceImpl::PipelineServiceImpl(Options options, EvalRunner* runner,
                                         Admission* admission, Clock* clock,
                                         Timers* timers)
    : options_(options),
      runner_(runner),
      admission_(admission),
      clock_(clock),
      timers_(timers),
      allocator_(std::make_unique<Allocator>()) {
  SetMessageAllocatorFor_Eval(allocator_.get());
}

PipelineServiceImpl::~PipelineServiceImpl() = default;

grpc::ServerUnaryReactor* PipelineServiceImpl::Eval(
    grpc::CallbackServerContext* context, const v1::EvalRequest* request,
    v1::EvalResponse* response) {
  auto* holder = static_cast<UnaryHolder*>(context->GetRpcAllocatorState());
  auto* reactor = new UnaryEval(runner_, clock_, DeadlineOf(*context));
  reactor->Begin(holder->messages(), options_.max_message_bytes);
  return reactor;
}

grpc::ServerBidiReactor<v1::EvalChunk, v1::EvalEvent>*
PipelineServiceImpl::StreamEval(grpc::CallbackServerContext* context) {
  return BeginStreamEval(context,
                         {options_.stream_limits, DeadlineOf(*context), runner_,
                          admission_, clock_, timers_, options_.pace});
}

}  // namespace pipestage
