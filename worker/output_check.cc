#include "worker/output_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_info.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

// "float32 [8,?]".
std::string DescribePromise(const TensorLayout& layout) {
  return absl::StrCat(
      DTypeName(layout.dtype), " [",
      absl::StrJoin(layout.shape, ",",
                    [](std::string* out, int64_t size) {
                      absl::StrAppend(out, size < 0 ? "?" : absl::StrCat(size));
                    }),
      "]");
}

absl::Status Mismatch(StageIndex stage, absl::string_view got,
                      absl::string_view promised) {
  return WithReason(absl::AbortedError(
                        absl::StrCat("stage ", stage.value(), " returned ", got,
                                     "; the model's contract says ", promised)),
                    reason::kShapeMismatch);
}

bool Fits(const StageTensor& tensor, const TensorLayout& layout) {
  if (tensor.dtype != layout.dtype) return false;
  if (tensor.shape.size() != layout.shape.size()) return false;
  for (size_t axis = 0; axis < layout.shape.size(); ++axis) {
    if (layout.shape[axis] >= 0 && tensor.shape[axis] != layout.shape[axis]) {
      return false;
    }
  }
  return true;
}

}  // namespace

absl::Status CheckOutputs(StageIndex stage,
                          absl::Span<const StageTensor> outputs,
                          absl::Span<const TensorLayout> promised) {
  if (outputs.size() != promised.size()) {
    return Mismatch(stage, absl::StrCat(outputs.size(), " tensors"),
                    absl::StrCat(promised.size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const StageTensor& output = outputs[i];
    const std::string which =
        outputs.size() == 1 ? "" : absl::StrCat(" as output ", i);
    if (!Fits(output, promised[i])) {
      return Mismatch(stage, Describe(output.dtype, output.shape) + which,
                      DescribePromise(promised[i]));
    }
    PIPESTAGE_ASSIGN_OR_RETURN(const int64_t bytes,
                               NumBytes(output.dtype, output.shape));
    if (output.data.size() != bytes) {
      return Mismatch(stage, absl::StrCat(output.data.size(), " bytes", which),
                      absl::StrCat(bytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

}  // namespace pipestage
