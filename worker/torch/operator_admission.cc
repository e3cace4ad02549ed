#include "worker/torch/operator_admission.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace pipestage {
namespace {

absl::Status Refused(absl::string_view target, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("operator ", target, " is not admitted: ", why));
}

// Operators of namespace aten that do more than compute.
bool TouchesMoreThanTensors(absl::string_view name) {
  static const auto* const kDenied =
      new absl::flat_hash_set<std::string>{"_backward",
                                           "_cudnn_init_dropout_state",
                                           "_print",
                                           "from_file",
                                           "record_stream",
                                           "resize_",
                                           "resize_as_",
                                           "_resize_output_",
                                           "set",
                                           "set_",
                                           "set_data",
                                           "_use_cudnn_rnn_flatten_weight",
                                           "_make_dep_token"};
  return kDenied->contains(name) || absl::StartsWith(name, "_cufft_") ||
         absl::StartsWith(name, "_test_") ||
         absl::StartsWith(name, "quantized_");
}

// Types of arguments that name something other than tensors and numbers.
bool IsForeignType(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::StorageType:
    case c10::TypeKind::StreamObjType:
    case c10::TypeKind::ClassType:
    case c10::TypeKind::CapsuleType:
    case c10::TypeKind::AnyType:
    case c10::TypeKind::PyObjectType:
      return true;
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::ListType:
      return IsForeignType(type->containedType(0));
    default:
      return false;
  }
}

absl::Status CheckTypes(absl::string_view target,
                        const c10::FunctionSchema& schema) {
  for (const c10::Argument& argument : schema.arguments()) {
    if (IsForeignType(argument.type())) {
      return Refused(target, absl::StrCat("its argument ", argument.name(),
                                          " is a ", argument.type()->str()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<c10::OperatorHandle> AdmitOperator(absl::string_view target) {
  absl::string_view path = target;
  if (!absl::ConsumePrefix(&path, "torch.ops.")) {
    return Refused(target, "it is no operator of LibTorch");
  }
  const std::vector<std::string> parts = absl::StrSplit(path, '.');
  if (parts.size() != 3) return Refused(target, "its name has no three parts");
  if (parts[0] != "aten" && parts[0] != "pipestage") {
    return Refused(target,
                   absl::StrCat("namespace ", parts[0],
                                "; programs may use aten and pipestage"));
  }
  if (parts[0] == "aten" && TouchesMoreThanTensors(parts[1])) {
    return Refused(target, "it does more than compute with tensors");
  }
  const std::string overload = parts[2] == "default" ? "" : parts[2];
  const std::optional<c10::OperatorHandle> op =
      c10::Dispatcher::singleton().findSchema(
          {absl::StrCat(parts[0], "::", parts[1]), overload});
  if (!op.has_value()) return Refused(target, "this LibTorch has none such");
  if (absl::Status status = CheckTypes(target, op->schema()); !status.ok()) {
    return status;
  }
  return *op;
}

}  // namespace pipestage
