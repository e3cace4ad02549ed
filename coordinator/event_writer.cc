#include "coordinator/event_writer.h"

#include <algorithm>
#include <utility>

#include "base/grpc_status.h"
#include "base/log.h"

namespace pipestage {
namespace {

constexpr size_t kChunkBytes = 256 << 10;

}  // namespace

void EventWriter::AddLoss(const v1::MicrobatchLoss& loss) {
  const size_t m = loss.microbatch();
  if (losses_written_.size() <= m) losses_written_.resize(m + 1, false);
  if (losses_written_[m]) return;
  losses_written_[m] = true;
  *events_.emplace_back().mutable_microbatch() = loss;
}

void EventWriter::WriteLosses(const std::vector<v1::MicrobatchLoss>& losses) {
  absl::MutexLock lock(&mu_);
  if (ending_ || reply_ != nullptr) return;
  for (const auto& loss : losses) AddLoss(loss);
  WriteNext();
}

void EventWriter::WriteReply(std::shared_ptr<v1::EvalResponse> reply) {
  absl::MutexLock lock(&mu_);
  if (ending_ || reply_ != nullptr) return;
  reply_ = std::move(reply);
  for (const auto& loss : reply_->microbatches()) AddLoss(loss);
  if (!reply_->outputs().empty()) AnnounceOutputs();
  WriteNext();
}

void EventWriter::AnnounceOutputs() {
  auto* header = events_.emplace_back().mutable_outputs();
  for (const auto& [name, tensor] : reply_->outputs()) outputs_.push_back(name);
  std::sort(outputs_.begin(), outputs_.end());
  for (const std::string& name : outputs_) {
    const v1::Tensor& tensor = reply_->outputs().at(name);
    auto* announcement = header->add_tensors();
    announcement->set_role(v1::OUTPUT);
    announcement->set_name(name);
    announcement->mutable_spec()->set_dtype(tensor.dtype());
    *announcement->mutable_spec()->mutable_shape() = tensor.shape();
  }
}

void EventWriter::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (ending_) return;
  ending_ = true;
  status_ = status;
  events_.clear();
  reply_.reset();
  WriteNext();
}

void EventWriter::OnWriteDone(bool ok) {
  pace_->End();
  absl::MutexLock lock(&mu_);
  writing_ = false;
  if (!ok && !ending_) {
    ending_ = true;
    status_ = absl::CancelledError("the client has gone");
    events_.clear();
    reply_.reset();
  }
  WriteNext();
}

void EventWriter::OnStreamDone() {
  absl::MutexLock lock(&mu_);
  reactor_ = nullptr;
  context_ = nullptr;
  ending_ = true;
  events_.clear();
  reply_.reset();
}

void EventWriter::BreakOff() {
  absl::MutexLock lock(&mu_);
  if (context_ != nullptr) context_->TryCancel();
}

bool EventWriter::TakeChunk() {
  while (output_ < outputs_.size()) {
    std::string& data =
        *(*reply_->mutable_outputs())[outputs_[output_]].mutable_data();
    if (offset_ < data.size()) {
      const size_t size = std::min(kChunkBytes, data.size() - offset_);
      event_.mutable_chunk()->set_tensor(static_cast<int32_t>(output_));
      event_.mutable_chunk()->set_data(data.data() + offset_, size);
      offset_ += size;
      return true;
    }
    std::string().swap(data);  // sent: its memory is free
    offset_ = 0;
    ++output_;
  }
  return false;
}

bool EventWriter::TakeEvent() {
  event_.Clear();
  if (!events_.empty()) {
    event_ = std::move(events_.front());
    events_.pop_front();
    return true;
  }
  if (reply_ == nullptr) return false;
  if (TakeChunk()) return true;
  reply_->clear_outputs();
  *event_.mutable_summary() = std::move(*reply_);
  reply_.reset();
  ending_ = true;  // with OK, once the summary is written
  return true;
}

void EventWriter::WriteNext() {
  if (writing_ || finished_ || reactor_ == nullptr) return;
  if (ending_) {
    finished_ = true;
    reactor_->Finish(ToGrpcStatus(status_));
    return;
  }
  if (!TakeEvent()) return;
  writing_ = true;
  pace_->Begin([weak = weak_from_this()](absl::Duration since, int64_t) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    PIPESTAGE_LOG_WARN("a client has read nothing of its answer for {}",
                       absl::FormatDuration(since));
    self->BreakOff();
  });
  reactor_->StartWrite(&event_);
}

}  // namespace pipestage
