#include "worker/result_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/status_macros.h"
#include "tensor/tensor_codec.h"

namespace pipestage {
namespace {

int NumMicrobatches(const v1::LossReport& report) {
  return report.weights_size();
}

bool IsDataDependent(const TensorContract& contract) {
  return std::any_of(
      contract.shape.begin(), contract.shape.end(),
      [](const SizeExpression& size) { return size.is_data_dependent(); });
}

}  // namespace

ResultWriter::ResultWriter(Options options, const PreparedCall& call,
                           Outbox* outbox, StageLoader* loader, Clock* clock)
    : options_(options),
      call_(call),
      outbox_(outbox),
      loader_(loader),
      clock_(clock),
      last_report_(clock->Now()) {}

void ResultWriter::Fail(absl::Status error) {
  failed_ = true;
  losses_.Clear();
  pieces_.clear();
  v1::WorkerMessage message;
  message.mutable_call_failed()->set_call_id(call_id());
  *message.mutable_call_failed()->mutable_error() = ToRpcStatus(error);
  outbox_->Send(std::move(message));
}

absl::Status ResultWriter::AddLoss(MicrobatchIndex m,
                                   MicrobatchLossValue loss) {
  const int count = NumMicrobatches(losses_);
  if (count > 0 && losses_.first_microbatch() + count != m.value()) {
    SendLosses();
  }
  if (NumMicrobatches(losses_) == 0) losses_.set_first_microbatch(m.value());
  const auto partials = loss.total.sum.partials();
  for (double partial : partials) losses_.add_partials(partial);
  losses_.add_partial_counts(static_cast<int>(partials.size()));
  losses_.add_weights(loss.total.weight);
  losses_.add_nonfinite(loss.total.nonfinite);
  for (double sum : loss.row_sums) losses_.add_row_sums(sum);
  for (int64_t weight : loss.row_weights) losses_.add_row_weights(weight);

  losses_bytes_ += 32 + 16 * static_cast<int64_t>(loss.row_sums.size());
  const bool progress =
      call_.wishes.report_progress &&
      clock_->Now() - last_report_ >= options_.progress_interval;
  if (progress || losses_bytes_ >= options_.piece_bytes) SendLosses();
  return absl::OkStatus();
}

void ResultWriter::SendLosses() {
  v1::WorkerMessage message;
  losses_.set_call_id(call_id());
  *message.mutable_losses() = std::exchange(losses_, v1::LossReport());
  outbox_->Send(std::move(message));
  losses_bytes_ = 0;
  last_report_ = clock_->Now();
}

absl::Status ResultWriter::AddOutput(MicrobatchIndex m, int output,
                                     const StageTensor& tensor) {
  PIPESTAGE_ASSIGN_OR_RETURN(const HostTensor host, loader_->ToHost(tensor));
  if (static_cast<int64_t>(host.data.size()) > options_.max_part_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "output ", call_.model->contract->outputs[output].name,
        " of one microbatch has ", host.data.size(), " bytes; a message holds ",
        options_.max_part_bytes, "; use more microbatches"));
  }
  if (pieces_.size() <= output) pieces_.resize(output + 1);
  v1::OutputData& piece = pieces_[output];
  piece.set_output(output);
  const int count = piece.num_microbatches();
  if (count > 0 &&
      (piece.first_microbatch() + count != m.value() ||
       piece.data().size() + host.data.size() > options_.piece_bytes)) {
    SendOutput(piece);
  }
  if (piece.num_microbatches() == 0) Begin(piece, m, host.data.size());
  piece.set_num_microbatches(piece.num_microbatches() + 1);
  piece.mutable_data()->append(reinterpret_cast<const char*>(host.data.data()),
                               host.data.size());
  if (IsDataDependent(call_.model->contract->outputs[output])) {
    *piece.add_parts() = EncodeSpec(host.dtype, host.shape);
  }
  if (piece.data().size() >= options_.piece_bytes) SendOutput(piece);
  return absl::OkStatus();
}

// Microbatches that follow are about as large: one reservation holds them all.
void ResultWriter::Begin(v1::OutputData& piece, MicrobatchIndex m,
                         size_t first_bytes) {
  piece.set_call_id(call_id());
  piece.set_first_microbatch(m.value());
  const size_t left = call_.plan->num_microbatches - m.value();
  const size_t piece_bytes = options_.piece_bytes;
  piece.mutable_data()->reserve(
      std::max(first_bytes, std::min(piece_bytes, first_bytes * left)));
}

void ResultWriter::SendOutput(v1::OutputData& piece) {
  const int output = piece.output();
  v1::WorkerMessage message;
  message.mutable_output()->Swap(&piece);
  outbox_->Send(std::move(message));
  piece.Clear();
  piece.set_output(output);
}

void ResultWriter::Finish(const CallOutcome& outcome) {
  v1::WorkerMessage message;
  v1::CallDone& done = *message.mutable_call_done();
  done.set_call_id(call_id());
  done.set_busy_s(absl::ToDoubleSeconds(outcome.busy));
  done.set_wait_s(absl::ToDoubleSeconds(outcome.wait));
  done.set_wall_s(absl::ToDoubleSeconds(outcome.wall));
  done.set_complete(outcome.complete);
  for (const TimelineEntry& entry : outcome.timeline) {
    done.add_timeline_stages(entry.stage.value());
    done.add_timeline_microbatches(entry.microbatch.value());
    done.add_timeline_start_us(entry.start_us);
    done.add_timeline_end_us(entry.end_us);
  }
  if (outcome.complete) AttachResults(done);
  outbox_->Send(std::move(message));
}

void ResultWriter::AttachResults(v1::CallDone& done) {
  if (NumMicrobatches(losses_) > 0) {
    losses_.set_call_id(call_id());
    done.mutable_losses()->Swap(&losses_);
  }
  int64_t attached = 0;
  for (v1::OutputData& piece : pieces_) {
    if (piece.num_microbatches() == 0) continue;
    const int64_t bytes = piece.data().size();
    if (attached + bytes > options_.piece_bytes) {
      SendOutput(piece);
      continue;
    }
    attached += bytes;
    done.add_outputs()->Swap(&piece);
  }
}

}  // namespace pipestage
