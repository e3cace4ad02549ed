#ifndef PIPESTAGE_PACKAGE_BOUNDARY_SHAPES_H_
#define PIPESTAGE_PACKAGE_BOUNDARY_SHAPES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "package/contract.h"
#include "package/size_expression.h"
#include "tensor/host_tensor.h"

namespace pipestage {

// The size of an axis that is known only when the tensor is there ("?").
inline constexpr int64_t kDataDependentSize = -1;

// The shapes that cross a stage's boundaries for microbatches of one size.
struct StageShapes {
  std::vector<Shape> inputs;   // positional, then keyword
  std::vector<Shape> outputs;  // kDataDependentSize where the contract says "?"
};

// Resolves the boundaries of `stage` for a microbatch of `rows` rows. `sizes`
// are a Binding's. Microbatches have at most two sizes, so a call needs this at
// most twice a stage. Pure.
//
// Errors: InvalidArgument naming stage and tensor if the stage does not exist
// or an expression has no value under these sizes.
absl::StatusOr<StageShapes> ResolveStageShapes(const PackageContract& contract,
                                               StageIndex stage,
                                               const Sizes& sizes,
                                               int64_t rows);

}  // namespace pipestage

#endif  // PIPESTAGE_PACKAGE_BOUNDARY_SHAPES_H_
