#include "worker/call_shapes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "package/boundary_shapes.h"
#include "worker/message_header.h"

namespace pipestage {
namespace {

absl::StatusOr<TensorLayout> MakeLayout(DType dtype, Shape shape) {
  TensorLayout layout = {dtype, std::move(shape), -1};
  const bool known = std::find(layout.shape.begin(), layout.shape.end(),
                               kDataDependentSize) == layout.shape.end();
  if (known) {
    PIPESTAGE_ASSIGN_OR_RETURN(layout.bytes, NumBytes(dtype, layout.shape));
  }
  return layout;
}

absl::StatusOr<MessageLayout> ResolveOutputs(const PackageContract& contract,
                                             const StageContract& stage,
                                             const Sizes& sizes, int64_t rows) {
  PIPESTAGE_ASSIGN_OR_RETURN(
      StageShapes shapes,
      ResolveStageShapes(contract, stage.index, sizes, rows));
  MessageLayout message;
  for (size_t i = 0; i < shapes.outputs.size(); ++i) {
    PIPESTAGE_ASSIGN_OR_RETURN(
        TensorLayout layout,
        MakeLayout(stage.outputs[i].dtype, std::move(shapes.outputs[i])));
    message.digest = SpecDigest(message.digest, layout.dtype, layout.shape);
    if (layout.bytes > 0) message.payload_bytes += layout.bytes;
    message.tensors.push_back(std::move(layout));
  }
  return message;
}

Sizes WithRows(Sizes sizes, int64_t rows) {
  sizes.Set(kRowsName, rows);
  return sizes;
}

}  // namespace

absl::StatusOr<CallShapes::MicrobatchSize> CallShapes::ResolveSize(
    const PackageContract& contract, const Sizes& sizes, int64_t rows) {
  MicrobatchSize result;
  const Sizes with_rows = WithRows(sizes, rows);
  for (const StageContract& stage : contract.stages) {
    PIPESTAGE_ASSIGN_OR_RETURN(MessageLayout outputs,
                               ResolveOutputs(contract, stage, sizes, rows));
    result.stage_outputs.push_back(std::move(outputs));
  }
  for (const auto* tensors : {&contract.inputs, &contract.targets}) {
    for (const TensorContract& tensor : *tensors) {
      PIPESTAGE_ASSIGN_OR_RETURN(Shape shape, ResolveShape(tensor, with_rows));
      PIPESTAGE_ASSIGN_OR_RETURN(TensorLayout layout,
                                 MakeLayout(tensor.dtype, std::move(shape)));
      result.arguments.push_back(std::move(layout));
    }
  }
  return result;
}

absl::StatusOr<std::shared_ptr<const CallShapes>> CallShapes::Resolve(
    const PackageContract& contract, const Sizes& sizes, int64_t rows,
    int num_microbatches) {
  if (rows < num_microbatches) {
    return absl::InvalidArgumentError(
        absl::StrCat("the call has ", rows, " rows; its plan has ",
                     num_microbatches, " microbatches, and none is empty"));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(const Microbatches microbatches,
                             Microbatches::Create(rows, num_microbatches));
  auto shapes =
      std::shared_ptr<CallShapes>(new CallShapes(sizes, microbatches));
  PIPESTAGE_ASSIGN_OR_RETURN(
      shapes->by_size_[0],
      ResolveSize(contract, sizes, microbatches.max_rows()));
  if (rows % num_microbatches != 0) {
    PIPESTAGE_ASSIGN_OR_RETURN(
        shapes->by_size_[1],
        ResolveSize(contract, sizes, microbatches.max_rows() - 1));
  }
  return shapes;
}

bool CallShapes::IsFor(const Sizes& sizes, int64_t rows) const {
  return microbatches_.total_rows() == rows && sizes_.all() == sizes.all();
}

}  // namespace pipestage
