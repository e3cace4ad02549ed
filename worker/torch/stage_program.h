#ifndef PIPESTAGE_WORKER_TORCH_STAGE_PROGRAM_H_
#define PIPESTAGE_WORKER_TORCH_STAGE_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensor/dtype.h"
#include "worker/torch/torch_tensor.h"

namespace pipestage {

// What a program says about a tensor that it takes or returns.
struct ProgramTensor {
  std::string name;
  std::optional<DType> dtype;  // unset: no dtype that may cross a boundary
  // Of each axis; unset if it varies from call to call.
  std::vector<std::optional<int64_t>> sizes;
};

// What a program says about itself.
struct ProgramSignature {
  std::vector<ProgramTensor> inputs;
  std::vector<ProgramTensor> outputs;
};

// What a stage executes in evaluation mode: an exported program, a registered
// module or a TorchScript archive, with its weights.
//
// Used by one thread at a time. Exceptions never leave it.
class StageProgram {
 public:
  virtual ~StageProgram() = default;

  // `inputs` in the contract's order, on the program's device; not written to.
  // Runs under the caller's InferenceMode and leaves weights and the random
  // generators as they were. Results may be views of anything.
  //
  // Aborted or ResourceExhausted, saying where in the program.
  virtual absl::StatusOr<std::vector<at::Tensor>> Run(
      absl::Span<const at::Tensor> inputs) = 0;

  // Null if the program does not say.
  virtual const ProgramSignature* signature() const = 0;

  // The storages of weights and constants.
  virtual const StorageSet& state() const = 0;
  virtual int64_t weight_bytes() const = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_STAGE_PROGRAM_H_
