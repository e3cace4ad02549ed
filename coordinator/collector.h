#ifndef PIPESTAGE_COORDINATOR_COLLECTOR_H_
#define PIPESTAGE_COORDINATOR_COLLECTOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/eval_setup.h"
#include "coordinator/loss_collector.h"
#include "coordinator/merged_output.h"
#include "proto/pipeline_service.pb.h"
#include "proto/worker_link.pb.h"

namespace pipestage {

// The results of one call, put together in its reply as they come.
//
// Thread-compatible.
class Collector {
 public:
  // `setup` outlives it.
  Collector(const EvalSetup& setup, int64_t max_reply_bytes,
            std::shared_ptr<v1::EvalResponse> reply);

  // The new microbatch losses of a report; none when all were there already.
  absl::StatusOr<std::vector<v1::MicrobatchLoss>> AddLosses(
      const v1::LossReport& report);
  // False if the parts were there already. May move the bytes away.
  absl::StatusOr<bool> AddOutput(v1::OutputData& data);

  // Completes the reply's losses and outputs.
  // Internal if something has not come.
  absl::Status Finish();

 private:
  const EvalSetup& setup_;
  const std::shared_ptr<v1::EvalResponse> reply_;
  std::optional<LossCollector> losses_;
  std::vector<MergedOutput> outputs_;  // in the order of setup_.outputs
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_COLLECTOR_H_
