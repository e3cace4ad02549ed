#include "coordinator/collector.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace pipestage {

Collector::Collector(const EvalSetup& setup, int64_t max_reply_bytes,
                     std::shared_ptr<v1::EvalResponse> reply)
    : setup_(setup), reply_(std::move(reply)) {
  if (setup.with_loss) {
    losses_.emplace(setup.microbatches, setup.row_losses, reply_.get());
  }
  outputs_.reserve(setup.outputs.size());
  for (const OutputLayout& layout : setup.outputs) {
    // Map values stay where they are when others are added.
    outputs_.emplace_back(layout, setup.microbatches, max_reply_bytes,
                          &(*reply_->mutable_outputs())[layout.contract->name]);
  }
}

absl::StatusOr<std::vector<v1::MicrobatchLoss>> Collector::AddLosses(
    const v1::LossReport& report) {
  if (!losses_) {
    return absl::InternalError("losses came for a model that has none");
  }
  return losses_->Add(report);
}

absl::StatusOr<bool> Collector::AddOutput(v1::OutputData& data) {
  for (size_t i = 0; i < setup_.outputs.size(); ++i) {
    if (setup_.outputs[i].output == data.output()) {
      return outputs_[i].Add(data);
    }
  }
  return absl::InternalError(absl::StrCat(
      "output ", data.output(), " came; the call did not ask for it"));
}

absl::Status Collector::Finish() {
  if (losses_) {
    if (!losses_->complete()) {
      return absl::InternalError(
          "the workers have finished, but losses are missing");
    }
    losses_->Finish();
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].complete()) {
      return absl::InternalError(
          absl::StrCat("the workers have finished, but parts of output ",
                       setup_.outputs[i].contract->name, " are missing"));
    }
    PIPESTAGE_RETURN_IF_ERROR(outputs_[i].Finish());
  }
  return absl::OkStatus();
}

}  // namespace pipestage
