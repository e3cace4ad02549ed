#include "coordinator/stream_eval.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/error_info.h"
#include "coordinator/event_writer.h"
#include "coordinator/rpc_deadline.h"

namespace pipestage {
namespace {

absl::Status BadOrder(absl::string_view message) {
  return WithReason(absl::InvalidArgumentError(message), reason::kInvalidInput);
}

// A reply whose bytes are reserved until a slow client has read it.
struct CountedReply {
  Admission::Reservation reservation;
  v1::EvalResponse reply;
};

// The reading half. Reads one message at a time, so its state needs no lock,
// but for what OnCancel looks at.
class StreamedEval final : public EventWriter::Reactor {
 public:
  explicit StreamedEval(StreamEvalOptions options)
      : options_(options),
        arrived_(options.clock->Now()),
        writer_(std::make_shared<EventWriter>(this)) {
    StartRead(&chunk_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      if (!started_) End(CheckComplete());
      return;
    }
    const absl::Status status = chunk_.has_header() ? OnHeader() : OnChunk();
    if (!status.ok()) {
      End(status);
      return;
    }
    if (!started_ && inputs_->complete()) StartCall();
    chunk_.Clear();
    StartRead(&chunk_);
  }

  void OnWriteDone(bool ok) override { writer_->OnWriteDone(ok); }

  void OnCancel() override {
    End(CauseOfCancel(options_.deadline, options_.clock->Now()));
  }

  void OnDone() override {
    writer_->OnStreamDone();
    delete this;
  }

 private:
  absl::Status OnHeader() {
    if (inputs_) return BadOrder("the stream has a second header");
    auto inputs = StreamedInputs::Begin(chunk_.header(), options_.limits);
    if (!inputs.ok()) return inputs.status();
    auto reservation = options_.admission->Reserve(inputs->size_bytes());
    if (!reservation.ok()) return reservation.status();
    inputs_ = *std::move(inputs);
    task_.input_reservation = *std::move(reservation);
    task_.model = chunk_.header().model();
    task_.options = chunk_.header().options();
    return absl::OkStatus();
  }

  absl::Status OnChunk() {
    if (!inputs_) return BadOrder("the stream does not start with a header");
    if (!chunk_.has_chunk()) {
      return BadOrder("a message has neither header nor chunk");
    }
    return inputs_->Add(chunk_.chunk());
  }

  absl::Status CheckComplete() const {
    if (!inputs_) return BadOrder("the stream ended before its header");
    return inputs_->CheckComplete();
  }

  void StartCall() {
    started_ = true;
    auto counted = std::make_shared<CountedReply>();
    std::shared_ptr<v1::EvalResponse> reply(counted, &counted->reply);
    task_.inputs = inputs_->Take();
    task_.arrived = arrived_;
    task_.deadline = options_.deadline;
    task_.reply = reply;
    task_.reservation = &counted->reservation;
    task_.on_losses = [writer = writer_](const auto& losses) {
      writer->WriteLosses(losses);
    };
    task_.done = [writer = writer_, reply](const absl::Status& status) {
      if (status.ok()) {
        writer->WriteReply(reply);
      } else {
        writer->Fail(status);
      }
    };
    auto handle = options_.runner->Start(std::move(task_));
    absl::Status ended;
    {
      absl::MutexLock lock(&mu_);
      handle_ = handle;
      ended = ended_;
    }
    if (!ended.ok()) options_.runner->Cancel(handle, ended);
  }

  // Ends the call, or what there is of it, with `why`.
  void End(const absl::Status& why) {
    std::shared_ptr<EvalRunner::Handle> handle;
    {
      absl::MutexLock lock(&mu_);
      if (ended_.ok()) ended_ = why;
      handle = handle_;
    }
    if (handle != nullptr) options_.runner->Cancel(handle, why);
    writer_->Fail(why);
  }

  const StreamEvalOptions options_;
  const absl::Time arrived_;
  const std::shared_ptr<EventWriter> writer_;
  v1::EvalChunk chunk_;
  std::optional<StreamedInputs> inputs_;
  EvalTask task_;
  bool started_ = false;

  absl::Mutex mu_;
  std::shared_ptr<EvalRunner::Handle> handle_ ABSL_GUARDED_BY(mu_);
  absl::Status ended_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

grpc::ServerBidiReactor<v1::EvalChunk, v1::EvalEvent>* BeginStreamEval(
    StreamEvalOptions options) {
  return new StreamedEval(options);
}

}  // namespace pipestage
