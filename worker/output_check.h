#ifndef PIPESTAGE_WORKER_OUTPUT_CHECK_H_
#define PIPESTAGE_WORKER_OUTPUT_CHECK_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "worker/call_shapes.h"
#include "worker/stage_tensor.h"

namespace pipestage {

// Whether a stage returned what the contract promises, before any of it is
// used. Aborted (SHAPE_MISMATCH) naming stage, what came and what was promised.
absl::Status CheckOutputs(StageIndex stage,
                          absl::Span<const StageTensor> outputs,
                          absl::Span<const TensorLayout> promised);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_OUTPUT_CHECK_H_
