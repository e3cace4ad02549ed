#ifndef PIPESTAGE_WORKER_CALL_SHAPES_H_
#define PIPESTAGE_WORKER_CALL_SHAPES_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "package/contract.h"
#include "package/size_expression.h"
#include "tensor/dtype.h"
#include "tensor/host_tensor.h"
#include "tensor/microbatches.h"

namespace pipestage {

// What one tensor of a microbatch looks like in this call.
struct TensorLayout {
  DType dtype = DType::kFloat32;
  Shape shape;        // -1 where only the data tells
  int64_t bytes = 0;  // -1 if the shape has a -1
};

// The outputs of a stage for one microbatch, as they travel.
struct MessageLayout {
  std::vector<TensorLayout> tensors;
  int64_t payload_bytes = 0;  // of the tensors whose size is known
  uint64_t digest = 0;
};

// Every shape of one call, worked out from the contract once. Microbatches come
// in at most two sizes, so this is small whatever M is. Immutable; thread-safe.
class CallShapes {
 public:
  // Depends on nothing but its arguments: every rank gets the same answer.
  // InvalidArgument if `rows` < `num_microbatches`, or if an expression has no
  // value.
  static absl::StatusOr<std::shared_ptr<const CallShapes>> Resolve(
      const PackageContract& contract, const Sizes& sizes, int64_t rows,
      int num_microbatches);

  // Whether Resolve with these would give the same again.
  bool IsFor(const Sizes& sizes, int64_t rows) const;

  const Microbatches& microbatches() const { return microbatches_; }
  // The outputs of a stage.
  const MessageLayout& outputs(StageIndex stage, MicrobatchIndex m) const {
    return SizeOf(m).stage_outputs[stage.value()];
  }
  // A model input, or (counting on) a target. For a replicated one, m does not
  // matter.
  const TensorLayout& argument(int index, MicrobatchIndex m) const {
    return SizeOf(m).arguments[index];
  }

 private:
  struct MicrobatchSize {
    std::vector<MessageLayout> stage_outputs;
    std::vector<TensorLayout> arguments;
  };

  CallShapes(Sizes sizes, Microbatches microbatches)
      : sizes_(std::move(sizes)), microbatches_(microbatches) {}

  static absl::StatusOr<MicrobatchSize> ResolveSize(
      const PackageContract& contract, const Sizes& sizes, int64_t rows);

  const MicrobatchSize& SizeOf(MicrobatchIndex m) const {
    return by_size_[microbatches_.rows(m) == microbatches_.max_rows() ? 0 : 1];
  }

  const Sizes sizes_;
  const Microbatches microbatches_;
  std::array<MicrobatchSize, 2>
      by_size_;  // larger first; the second may be empty
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_CALL_SHAPES_H_
