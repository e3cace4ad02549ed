#ifndef PIPESTAGE_WORKER_TORCH_STAGE_WEIGHTS_H_
#define PIPESTAGE_WORKER_TORCH_STAGE_WEIGHTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "base/mapped_file.h"

namespace pipestage {

// The parameters and buffers of a stage, by fully qualified name. Names that
// share storage (tied weights) share a tensor.
using StageWeights = std::map<std::string, at::Tensor>;

// Reads a safetensors file. Weights are copied, once, to `device`: they are
// then aligned for the kernels, and what happens to the file no longer matters.
//
// FailedPrecondition, saying what is wrong with the file; ResourceExhausted.
absl::StatusOr<StageWeights> LoadWeights(
    const std::shared_ptr<const MappedFile>& file, c10::Device device);

// Bytes of the tensors, those with several names counted once.
int64_t WeightBytes(const StageWeights& weights);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_STAGE_WEIGHTS_H_
