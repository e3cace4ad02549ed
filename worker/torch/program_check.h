#ifndef PIPESTAGE_WORKER_TORCH_PROGRAM_CHECK_H_
#define PIPESTAGE_WORKER_TORCH_PROGRAM_CHECK_H_

#include "absl/status/status.h"
#include "package/contract.h"
#include "worker/torch/stage_program.h"

namespace pipestage {

// Whether a program is what the package says a stage is: as many inputs and
// outputs, of the same dtypes, axes and fixed sizes; and no size that the
// contract lets vary is fixed in the program. FailedPrecondition names the
// tensor and both sides.
absl::Status CheckStageProgram(const PackageContract& package,
                               const StageContract& stage,
                               const ProgramSignature& signature);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_PROGRAM_CHECK_H_
