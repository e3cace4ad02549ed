#ifndef PIPESTAGE_WORKER_TORCH_EVALUATION_RULES_H_
#define PIPESTAGE_WORKER_TORCH_EVALUATION_RULES_H_

#include "ATen/core/dispatch/Dispatcher.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/torch/argument_template.h"

namespace pipestage {

// FailedPrecondition if a call of `op` with these arguments is found only in a
// program that was exported in train mode: dropout that drops, normalisation
// that updates running statistics.
absl::Status CheckEvaluationMode(const c10::OperatorHandle& op,
                                 absl::Span<const ArgumentTemplate> arguments);

// Whether such a call draws random numbers.
bool DrawsRandom(const c10::OperatorHandle& op);

// Whether the schema says that the argument is written to.
bool IsWritten(const c10::Argument& argument);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_EVALUATION_RULES_H_
