#include "worker/torch/argument_template.h"

#include <optional>
#include <utility>

#include "ATen/core/List.h"
#include "ATen/core/Tensor.h"
#include "ATen/ops/scalar_tensor.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

using Kind = ExportedArgument::Kind;

c10::TypePtr WithoutOptional(c10::TypePtr type) {
  while (type->kind() == c10::TypeKind::OptionalType) {
    type = type->containedType(0);
  }
  return type;
}

c10::TypeKind KindOf(const c10::Argument& formal) {
  return WithoutOptional(formal.type())->kind();
}

// Of a list type, the kind of its elements.
std::optional<c10::TypePtr> ElementType(const c10::Argument& formal) {
  const c10::TypePtr type = WithoutOptional(formal.type());
  if (type->kind() != c10::TypeKind::ListType) return std::nullopt;
  return type->containedType(0);
}

// A Python number among tensors: it takes part in type promotion as a number.
c10::IValue NumberAsTensor(const c10::IValue& number) {
  const c10::ScalarType type = number.isDouble() ? c10::ScalarType::Double
                               : number.isBool() ? c10::ScalarType::Bool
                               : number.isComplexDouble()
                                   ? c10::ScalarType::ComplexDouble
                                   : c10::ScalarType::Long;
  at::Tensor tensor = at::scalar_tensor(number.toScalar(), type);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

double AsDouble(const c10::IValue& number) {
  return number.isDouble() ? number.toDouble()
         : number.isBool() ? static_cast<double>(number.toBool())
                           : static_cast<double>(number.toInt());
}

// Fits a number to a schema that is stricter than Python.
c10::IValue FitNumber(const c10::Argument& formal, c10::IValue number) {
  switch (KindOf(formal)) {
    case c10::TypeKind::TensorType:
      return NumberAsTensor(number);
    case c10::TypeKind::FloatType:
      return AsDouble(number);
    case c10::TypeKind::IntType:
      return number.isBool() ? c10::IValue(int64_t{number.toBool()}) : number;
    case c10::TypeKind::BoolType:
      return number.isInt() ? c10::IValue(number.toInt() != 0) : number;
    case c10::TypeKind::ListType:
      break;
    default:
      return number;
  }
  // int[2] stride = 1 means [1, 1].
  const size_t length = formal.N().value_or(1);
  if ((*ElementType(formal))->kind() == c10::TypeKind::FloatType) {
    return std::vector<double>(length, AsDouble(number));
  }
  if (!number.isInt()) return number;
  return std::vector<int64_t>(length, number.toInt());
}

absl::Status Unsupported(absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(what, " is not supported"));
}

absl::StatusOr<c10::IValue> ScalarTypeOf(int64_t code) {
  using T = c10::ScalarType;
  // Indexed by the code of torch.export.
  static constexpr T kTypes[] = {
      T::Undefined,    T::Byte,          T::Char,  T::Short,   T::Int,
      T::Long,         T::Half,          T::Float, T::Double,  T::ComplexHalf,
      T::ComplexFloat, T::ComplexDouble, T::Bool,  T::BFloat16};
  if (code < 1 || code >= static_cast<int64_t>(std::size(kTypes))) {
    return Unsupported(absl::StrCat("dtype code ", code));
  }
  return c10::IValue(static_cast<int64_t>(kTypes[code]));
}

absl::StatusOr<c10::IValue> MemoryFormatOf(int64_t code) {
  switch (code) {
    case 1:
      return c10::IValue(static_cast<int64_t>(c10::MemoryFormat::Contiguous));
    case 2:
      return c10::IValue(static_cast<int64_t>(c10::MemoryFormat::ChannelsLast));
    case 3:
      return c10::IValue(
          static_cast<int64_t>(c10::MemoryFormat::ChannelsLast3d));
    case 4:
      return c10::IValue(static_cast<int64_t>(c10::MemoryFormat::Preserve));
    default:
      return Unsupported(absl::StrCat("memory format code ", code));
  }
}

absl::StatusOr<c10::IValue> DeviceOf(const std::string& type,
                                     c10::Device device) {
  if (type == "cpu" || type == "cuda") return c10::IValue(device);
  return Unsupported(absl::StrCat("device \"", type, "\""));
}

c10::IValue StringList(const std::vector<std::string>& strings) {
  c10::List<std::string> list;
  for (const std::string& text : strings) list.push_back(text);
  return list;
}

absl::StatusOr<c10::IValue> ComplexNumber(const c10::Argument& formal,
                                          const ExportedArgument& argument) {
  const c10::TypeKind wanted = KindOf(formal);
  if (wanted != c10::TypeKind::TensorType &&
      wanted != c10::TypeKind::NumberType &&
      wanted != c10::TypeKind::ComplexType) {
    return Unsupported(absl::StrCat("a complex number for argument ",
                                    formal.name(), ", a ", formal.type()->str(),
                                    ","));
  }
  return FitNumber(
      formal, c10::complex<double>(argument.floats[0], argument.floats[1]));
}

absl::StatusOr<c10::IValue> Literal(const c10::Argument& formal,
                                    const ExportedArgument& argument,
                                    c10::Device device) {
  switch (argument.kind) {
    case Kind::kNone:
      return c10::IValue();
    case Kind::kInt:
      return FitNumber(formal, argument.ints[0]);
    case Kind::kBool:
      return FitNumber(formal, argument.ints[0] != 0);
    case Kind::kFloat:
      return FitNumber(formal, argument.floats[0]);
    case Kind::kComplex:
      return ComplexNumber(formal, argument);
    case Kind::kString:
      return c10::IValue(argument.text);
    case Kind::kStrings:
      return StringList(argument.strings);
    case Kind::kScalarType:
      return ScalarTypeOf(argument.ints[0]);
    case Kind::kLayout:
      if (argument.ints[0] != 7) return Unsupported("a layout but strided");
      return c10::IValue(static_cast<int64_t>(c10::kStrided));
    case Kind::kMemoryFormat:
      return MemoryFormatOf(argument.ints[0]);
    case Kind::kDevice:
      return DeviceOf(argument.text, device);
    default:
      return Unsupported(absl::StrCat("an argument of kind ", argument.text));
  }
}

}  // namespace

ArgumentTemplate ArgumentTemplate::Constant(c10::IValue value) {
  ArgumentTemplate result;
  result.constant_ = std::move(value);
  return result;
}

ArgumentTemplate ArgumentTemplate::Slot(int slot) {
  ArgumentTemplate result;
  result.kind_ = Kind::kSlot;
  result.slots_.push_back(slot);
  return result;
}

absl::StatusOr<ArgumentTemplate> ArgumentTemplate::Create(
    const c10::Argument& formal, const ExportedArgument& argument,
    const SlotLookup& lookup, c10::Device device) {
  switch (argument.kind) {
    case ExportedArgument::Kind::kValue:
      return CreateSlot(formal, argument, lookup);
    case ExportedArgument::Kind::kValues:
    case ExportedArgument::Kind::kOptionalValues:
      return CreateTensors(formal, argument, lookup);
    case ExportedArgument::Kind::kInts:
    case ExportedArgument::Kind::kFloats:
    case ExportedArgument::Kind::kBools:
      return CreateNumbers(formal, argument, lookup);
    default:
      break;
  }
  PIPESTAGE_ASSIGN_OR_RETURN(c10::IValue value,
                             Literal(formal, argument, device));
  return Constant(std::move(value));
}

absl::StatusOr<ArgumentTemplate> ArgumentTemplate::CreateSlot(
    const c10::Argument& formal, const ExportedArgument& argument,
    const SlotLookup& lookup) {
  PIPESTAGE_ASSIGN_OR_RETURN(const SlotRef ref, lookup(argument.names[0]));
  ArgumentTemplate result = Slot(ref.slot);
  if (!ref.is_number) return result;
  const c10::TypeKind wanted = KindOf(formal);
  if (wanted == c10::TypeKind::TensorType) result.kind_ = Kind::kSlotAsTensor;
  if (wanted == c10::TypeKind::FloatType) result.kind_ = Kind::kSlotAsFloat;
  return result;
}

absl::StatusOr<ArgumentTemplate> ArgumentTemplate::CreateTensors(
    const c10::Argument& formal, const ExportedArgument& argument,
    const SlotLookup& lookup) {
  ArgumentTemplate result;
  const std::optional<c10::TypePtr> element = ElementType(formal);
  const bool optional =
      element && (*element)->kind() == c10::TypeKind::OptionalType;
  result.kind_ = optional ? Kind::kOptionalTensors : Kind::kTensors;
  for (const std::string& name : argument.names) {
    if (name.empty() && optional) {
      result.slots_.push_back(-1);
      continue;
    }
    PIPESTAGE_ASSIGN_OR_RETURN(const SlotRef ref, lookup(name));
    result.slots_.push_back(ref.slot);
  }
  return result;
}

absl::StatusOr<ArgumentTemplate> ArgumentTemplate::CreateNumbers(
    const c10::Argument& formal, const ExportedArgument& argument,
    const SlotLookup& lookup) {
  ArgumentTemplate result;
  result.ints_ = argument.ints;
  result.floats_ = argument.floats;
  bool symbolic = false;
  for (const std::string& name : argument.names) {
    result.slots_.push_back(-1);
    if (name.empty()) continue;
    symbolic = true;
    PIPESTAGE_ASSIGN_OR_RETURN(const SlotRef ref, lookup(name));
    result.slots_.back() = ref.slot;
  }
  const std::optional<c10::TypePtr> element = ElementType(formal);
  const bool as_floats =
      element && (*element)->kind() == c10::TypeKind::FloatType;
  if (argument.kind == ExportedArgument::Kind::kInts && as_floats) {
    result.floats_.assign(argument.ints.begin(), argument.ints.end());
    result.kind_ = Kind::kFloats;
  } else {
    result.kind_ = argument.kind == ExportedArgument::Kind::kInts ? Kind::kInts
                   : argument.kind == ExportedArgument::Kind::kFloats
                       ? Kind::kFloats
                       : Kind::kBools;
  }
  if (symbolic) return result;
  return Constant(result.Make({}));
}

c10::IValue ArgumentTemplate::MakeOther(const Slots& slots) const {
  switch (kind_) {
    case Kind::kSlotAsTensor:
      return NumberAsTensor(slots[slots_[0]]);
    case Kind::kSlotAsFloat:
      return AsDouble(slots[slots_[0]]);
    case Kind::kTensors:
      return MakeTensors(slots);
    case Kind::kOptionalTensors:
      return MakeOptionalTensors(slots);
    case Kind::kInts:
      return MakeInts(slots);
    case Kind::kFloats:
      return MakeFloats(slots);
    case Kind::kBools:
      return MakeBools(slots);
    default:
      return constant_;
  }
}

c10::IValue ArgumentTemplate::MakeTensors(const Slots& slots) const {
  c10::List<at::Tensor> list;
  list.reserve(slots_.size());
  for (const int slot : slots_) list.push_back(slots[slot].toTensor());
  return list;
}

c10::IValue ArgumentTemplate::MakeOptionalTensors(const Slots& slots) const {
  c10::List<std::optional<at::Tensor>> list;
  list.reserve(slots_.size());
  for (const int slot : slots_) {
    list.push_back(slot < 0 ? std::optional<at::Tensor>()
                            : slots[slot].toTensor());
  }
  return list;
}

c10::IValue ArgumentTemplate::MakeInts(const Slots& slots) const {
  std::vector<int64_t> list = ints_;
  for (size_t i = 0; i < list.size(); ++i) {
    if (slots_[i] >= 0) list[i] = slots[slots_[i]].toInt();
  }
  return list;
}

c10::IValue ArgumentTemplate::MakeFloats(const Slots& slots) const {
  std::vector<double> list = floats_;
  for (size_t i = 0; i < list.size(); ++i) {
    if (slots_[i] >= 0) list[i] = AsDouble(slots[slots_[i]]);
  }
  return list;
}

c10::IValue ArgumentTemplate::MakeBools(const Slots& slots) const {
  c10::List<bool> list;
  for (size_t i = 0; i < ints_.size(); ++i) {
    list.push_back(slots_[i] >= 0 ? slots[slots_[i]].toBool() : ints_[i] != 0);
  }
  return list;
}

}  // namespace pipestage
