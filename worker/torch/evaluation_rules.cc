#include "worker/torch/evaluation_rules.h"

#include "ATen/core/enum_tag.h"
#include "absl/strings/str_cat.h"

namespace pipestage {
namespace {

// The value of the named argument if it is known before a run, else null.
const c10::IValue* KnownArgument(const c10::OperatorHandle& op,
                                 absl::Span<const ArgumentTemplate> arguments,
                                 const char* name) {
  const std::optional<int> index = op.schema().argumentIndexWithName(name);
  return index ? arguments[*index].constant() : nullptr;
}

bool IsTrue(const c10::IValue* value) {
  return value != nullptr && value->isBool() && value->toBool();
}

bool IsPositive(const c10::IValue* value) {
  return value != nullptr && value->isDouble() && value->toDouble() > 0;
}

// Whether the operator has running statistics and is given them.
bool HasStatistics(const c10::OperatorHandle& op,
                   absl::Span<const ArgumentTemplate> arguments) {
  const std::optional<int> index =
      op.schema().argumentIndexWithName("running_mean");
  if (!index) return false;
  const c10::IValue* const value = arguments[*index].constant();
  return value == nullptr || !value->isNone();
}

bool TakesStatistics(const c10::OperatorHandle& op) {
  return op.schema().argumentIndexWithName("running_mean").has_value();
}

absl::Status TrainMode(absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat(what,
                   ": the program was exported in train mode; call "
                   "eval() on the model before torch.export"));
}

bool WritesWithin(const c10::AliasInfo& info) {
  if (info.isWrite()) return true;
  for (const c10::AliasInfo& contained : info.containedTypes()) {
    if (WritesWithin(contained)) return true;
  }
  return false;
}

}  // namespace

absl::Status CheckEvaluationMode(const c10::OperatorHandle& op,
                                 absl::Span<const ArgumentTemplate> arguments) {
  const bool trains = IsTrue(KnownArgument(op, arguments, "train")) ||
                      IsTrue(KnownArgument(op, arguments, "training")) ||
                      IsTrue(KnownArgument(op, arguments, "use_input_stats"));
  // Without running statistics a normalisation always uses the batch's.
  if (trains && TakesStatistics(op)) {
    if (!HasStatistics(op, arguments)) return absl::OkStatus();
    return TrainMode("it updates running statistics");
  }
  if (trains) return TrainMode("its argument says training");
  if (IsPositive(KnownArgument(op, arguments, "dropout_p"))) {
    return TrainMode("its dropout_p is not 0");
  }
  return absl::OkStatus();
}

bool DrawsRandom(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  // These have passed CheckEvaluationMode: they do not drop.
  for (const char* name : {"train", "training", "dropout_p"}) {
    if (schema.argumentIndexWithName(name)) return false;
  }
  return op.hasTag(at::Tag::nondeterministic_seeded);
}

bool IsWritten(const c10::Argument& argument) {
  return argument.alias_info() != nullptr &&
         WritesWithin(*argument.alias_info());
}

}  // namespace pipestage
