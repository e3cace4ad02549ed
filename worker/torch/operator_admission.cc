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

using NameSet = absl::flat_hash_set<absl::string_view>;

// Operators whose names start with an underscore are LibTorch's own: many trust
// their callers and read or write where wrong arguments tell them to. These
// check what they are given, and torch.export writes them.
bool IsAdmittedInternal(absl::string_view name) {
  static const auto* const kAdmitted = new NameSet{
      "__and__",
      "__iand__",
      "__ilshift__",
      "__ior__",
      "__irshift__",
      "__ixor__",
      "__lshift__",
      "__or__",
      "__rshift__",
      "__xor__",
      "_adaptive_avg_pool2d",
      "_adaptive_avg_pool3d",
      "_addmm_activation",
      "_aminmax",
      "_assert_async",
      "_assert_scalar",
      "_assert_tensor_metadata",
      "_cast_Byte",
      "_cast_Char",
      "_cast_Double",
      "_cast_Float",
      "_cast_Half",
      "_cast_Int",
      "_cast_Long",
      "_cast_Short",
      "_cdist_forward",
      "_conj",
      "_conj_physical",
      "_convolution",
      "_convolution_mode",
      "_euclidean_dist",
      "_fft_c2c",
      "_fft_c2r",
      "_fft_r2c",
      "_fused_rms_norm",
      "_int_mm",
      "_is_all_true",
      "_is_any_true",
      "_linalg_check_errors",
      "_linalg_det",
      "_linalg_eigh",
      "_linalg_eigvals",
      "_linalg_slogdet",
      "_linalg_solve_ex",
      "_linalg_svd",
      "_local_scalar_dense",
      "_log_softmax",
      "_logcumsumexp",
      "_native_batch_norm_legit",
      "_native_batch_norm_legit_functional",
      "_native_batch_norm_legit_no_training",
      "_neg_view",
      "_pad_circular",
      "_pad_enum",
      "_pdist_forward",
      "_prelu_kernel",
      "_safe_softmax",
      "_scaled_dot_product_attention_math",
      "_scaled_dot_product_cudnn_attention",
      "_scaled_dot_product_efficient_attention",
      "_scaled_dot_product_flash_attention",
      "_scaled_dot_product_flash_attention_for_cpu",
      "_shape_as_tensor",
      "_softmax",
      "_stack",
      "_to_copy",
      "_trilinear",
      "_unique",
      "_unique2",
      "_unsafe_index",
      "_unsafe_view",
      "_upsample_bicubic2d_aa",
      "_upsample_bilinear2d_aa",
      "_upsample_lanczos2d_aa",
      "_upsample_nearest_exact1d",
      "_upsample_nearest_exact2d",
      "_upsample_nearest_exact3d",
      "_weight_norm",
      "_weight_norm_interface",
  };
  return kAdmitted->contains(name);
}

// Operators of namespace aten that do more than compute.
bool TouchesMoreThanTensors(absl::string_view name) {
  static const auto* const kDenied = new NameSet{
      "from_file",  "record_stream", "resize_", "resize",   "resize_as",
      "resize_as_", "set",           "set_",    "set_data", "rename_"};
  return kDenied->contains(name);
}

// Families that make or take tensors other than strided ones, whose parts are
// not checked against each other, or buffers of a library's own layout.
bool IsOfAnotherLayout(absl::string_view name) {
  if (absl::StartsWith(name, "fake_quantize_")) return false;
  for (const absl::string_view family :
       {"sparse", "mkldnn", "nested", "quantize", "fbgemm", "cudnn", "miopen",
        "crow_", "ccol_", "jagged"}) {
    if (absl::StrContains(name, family)) return true;
  }
  return false;
}

// What is wrong with an operator of namespace aten; empty if nothing.
absl::string_view WhyNotAten(absl::string_view name) {
  if (absl::StartsWith(name, "_")) {
    if (IsAdmittedInternal(name)) return "";
    return "it is one of LibTorch's internal operators, which trust their "
           "callers";
  }
  if (TouchesMoreThanTensors(name)) {
    return "it does more than compute with tensors";
  }
  if (IsOfAnotherLayout(name)) {
    return "programs may use strided, unquantized tensors only";
  }
  return "";
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
    if (argument.name() == "unsafe") {
      return Refused(target, "its argument unsafe can turn its checks off");
    }
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
  if (parts[0] == "aten") {
    const absl::string_view why = WhyNotAten(parts[1]);
    if (!why.empty()) return Refused(target, why);
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
