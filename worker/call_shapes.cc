#include "worker/call_shapes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/message_header.h"

namespace pipestage {
namespace {

absl::StatusOr<TensorLayout> ResolveTensor(const TensorContract& contract,
                                           const Sizes& sizes) {
  TensorLayout layout;
  layout.dtype = contract.dtype;
  bool known = true;
  for (const SizeExpression& axis : contract.shape) {
    if (axis.is_data_dependent()) {
      layout.shape.push_back(-1);
      known = false;
      continue;
    }
    PIPESTAGE_ASSIGN_OR_RETURN(const int64_t size, axis.Evaluate(sizes));
    layout.shape.push_back(size);
  }
  layout.bytes = -1;
  if (known) {
    PIPESTAGE_ASSIGN_OR_RETURN(layout.bytes,
                               NumBytes(layout.dtype, layout.shape));
  }
  return layout;
}

absl::StatusOr<MessageLayout> ResolveOutputs(const StageContract& stage,
                                             const Sizes& sizes) {
  MessageLayout message;
  for (const TensorContract& output : stage.outputs) {
    PIPESTAGE_ASSIGN_OR_RETURN(TensorLayout layout,
                               ResolveTensor(output, sizes));
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
    const PackageContract& contract, const Sizes& sizes) {
  MicrobatchSize result;
  for (const StageContract& stage : contract.stages) {
    PIPESTAGE_ASSIGN_OR_RETURN(MessageLayout outputs,
                               ResolveOutputs(stage, sizes));
    result.stage_outputs.push_back(std::move(outputs));
  }
  for (const auto* tensors : {&contract.inputs, &contract.targets}) {
    for (const TensorContract& tensor : *tensors) {
      PIPESTAGE_ASSIGN_OR_RETURN(TensorLayout layout,
                                 ResolveTensor(tensor, sizes));
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
      ResolveSize(contract, WithRows(sizes, microbatches.max_rows())));
  if (rows % num_microbatches != 0) {
    PIPESTAGE_ASSIGN_OR_RETURN(
        shapes->by_size_[1],
        ResolveSize(contract, WithRows(sizes, microbatches.max_rows() - 1)));
  }
  return shapes;
}

bool CallShapes::IsFor(const Sizes& sizes, int64_t rows) const {
  return microbatches_.total_rows() == rows && sizes_.all() == sizes.all();
}

}  // namespace pipestage
