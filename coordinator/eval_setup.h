#ifndef PIPESTAGE_COORDINATOR_EVAL_SETUP_H_
#define PIPESTAGE_COORDINATOR_EVAL_SETUP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/call_inputs.h"
#include "coordinator/model_registry.h"
#include "package/binding.h"
#include "proto/pipeline_service.pb.h"
#include "schedule/compiler.h"
#include "tensor/host_tensor.h"
#include "tensor/microbatches.h"

namespace pipestage {

// How the parts of one output become the output that the client gets.
struct OutputLayout {
  int output = 0;  // index into the model's outputs
  const TensorContract* contract = nullptr;
  // The axis of the merged tensor along which parts are joined. For stacked
  // outputs it is 0, and each part counts as one row.
  int axis = 0;
  bool stacked = false;
  // Some sizes are known only when the parts are there; the rest below is then
  // empty, except for `part_shapes`, where such sizes are -1.
  bool data_dependent = false;
  // Of a part of the larger and of the smaller microbatches (equal when all are
  // of one size); without the new axis when stacked.
  Shape large_part, small_part;
  Shape merged;
  int64_t merged_bytes = 0;
  int64_t large_part_bytes = 0;

  // Along `axis`.
  int64_t extent(bool large) const {
    return stacked ? 1 : (large ? large_part : small_part)[axis];
  }
};

// Everything about a call that follows from the model's contract, the tensors
// and the options: decided and checked before anything is sent.
struct EvalSetup {
  Binding binding;
  Microbatches microbatches;
  PlanRequest plan;
  bool with_loss = false;
  bool row_losses = false;
  bool timeline = false;
  std::vector<OutputLayout> outputs;
  // Of the reply's tensors, as far as they do not depend on the data.
  int64_t reply_bytes = 0;
};

// More microbatches than anybody needs, and a bound on what a plan costs.
inline constexpr int64_t kMaxMicrobatches = 65536;

// `model` outlives the result.
//
// Errors: those of BindCall and CheckMicrobatchRows; InvalidArgument
// (INVALID_INPUT) for an option that is out of range, or contradicts another
// one or the model.
absl::StatusOr<EvalSetup> SetUpEval(const LoadedModel& model,
                                    const v1::CallOptions& options,
                                    const CallInputs& inputs);

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_EVAL_SETUP_H_
