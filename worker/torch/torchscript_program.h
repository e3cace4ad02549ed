#ifndef PIPESTAGE_WORKER_TORCH_TORCHSCRIPT_PROGRAM_H_
#define PIPESTAGE_WORKER_TORCH_TORCHSCRIPT_PROGRAM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/torch/stage_program.h"

namespace pipestage {

// Loads a TorchScript archive from memory as a program in evaluation mode. It
// carries its own weights. Such an archive is code: it may do whatever
// TorchScript may, so load it only from where code may come from.
//
// A buffer that the module writes to while it runs is put back afterwards.
//
// FailedPrecondition saying what is wrong with the archive; ResourceExhausted.
absl::StatusOr<std::unique_ptr<StageProgram>> LoadTorchScript(
    absl::string_view archive, c10::Device device);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_TORCHSCRIPT_PROGRAM_H_
