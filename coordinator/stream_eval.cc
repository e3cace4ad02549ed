#include "coordinator/stream_eval.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
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
  StreamedEval(grpc::CallbackServerContext* context, StreamEvalOptions options)
      : options_(options),
        arrived_(options.clock->Now()),
        writer_(std::make_shared<EventWriter>(this, context, MakePace())),
        upload_(std::make_shared<Upload>(this)),
        pace_(MakePace()) {
    pace_->Begin([upload = upload_](absl::Duration since, int64_t bytes) {
      upload->OnLate(since, bytes);
    });
    StartRead(&chunk_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      if (!started_) End(CheckComplete());
      return;
    }
    pace_->Moved(static_cast<int64_t>(chunk_.chunk().data().size()));
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
    pace_->End();
    upload_->Forget();
    writer_->OnStreamDone();
    delete this;
  }

 private:
  // What the timers' thread knows of the stream, which may go meanwhile.
  class Upload {
   public:
    explicit Upload(StreamedEval* stream) : stream_(stream) {}
    void OnLate(absl::Duration since, int64_t bytes) {
      absl::MutexLock lock(&mu_);
      if (stream_ == nullptr) return;
      stream_->End(absl::DeadlineExceededError(
          absl::StrCat("the tensors of this call are not all here after ",
                       absl::FormatDuration(since), "; ", bytes,
                       " bytes came, which is slower than ",
                       stream_->options_.pace.min_bytes_per_s,
                       " bytes/s; send it again without pauses")));
    }
    void Forget() {
      absl::MutexLock lock(&mu_);
      stream_ = nullptr;
    }

   private:
    absl::Mutex mu_;
    StreamedEval* stream_ ABSL_GUARDED_BY(mu_);
  };

  std::shared_ptr<TransferPace> MakePace() const {
    return TransferPace::Create(options_.pace, options_.clock, options_.timers);
  }

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
    pace_->End();
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
    pace_->End();
    if (handle != nullptr) options_.runner->Cancel(handle, why);
    writer_->Fail(why);
  }

  const StreamEvalOptions options_;
  const absl::Time arrived_;
  const std::shared_ptr<EventWriter> writer_;
  const std::shared_ptr<Upload> upload_;
  const std::shared_ptr<TransferPace> pace_;  // of the upload
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
    grpc::CallbackServerContext* context, StreamEvalOptions options) {
  return new StreamedEval(context, options);
}

}  // namespace pipestage
