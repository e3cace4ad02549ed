#ifndef PIPESTAGE_COORDINATOR_LOSS_COLLECTOR_H_
#define PIPESTAGE_COORDINATOR_LOSS_COLLECTOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/pipeline_service.pb.h"
#include "proto/worker_link.pb.h"
#include "tensor/exact_sum.h"
#include "tensor/microbatches.h"

namespace pipestage {

// A loss for the client: the sum rounded once, the mean only where there is
// one.
v1::Loss EncodeLoss(const LossSum& loss);

// The losses of a call by microbatch, in any order, and their exact total.
//
// Thread-compatible. `reply` outlives it.
class LossCollector {
 public:
  // With `row_losses`, fills reply.row_losses and row_weights.
  LossCollector(const Microbatches& microbatches, bool row_losses,
                v1::EvalResponse* reply);

  // The microbatches of this report that are new, in order.
  // Internal: they do not exist, or the report's lists disagree in length.
  absl::StatusOr<std::vector<v1::MicrobatchLoss>> Add(
      const v1::LossReport& report);

  bool complete() const { return num_received_ == microbatches_.count(); }
  // Writes total and microbatches into the reply. Call once, when complete.
  void Finish();

 private:
  absl::Status Check(const v1::LossReport& report) const;
  void PlaceRows(const v1::LossReport& report, int64_t from,
                 MicrobatchIndex microbatch);

  const Microbatches microbatches_;
  const bool row_losses_;
  v1::EvalResponse* const reply_;
  std::vector<LossSum> losses_;
  std::vector<bool> received_;
  int64_t num_received_ = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_LOSS_COLLECTOR_H_
