#include "worker/torch/symbolic_ops.h"

#include <cmath>
#include <functional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

using Args = absl::Span<const Number>;
using Result = absl::StatusOr<Number>;

bool IsFloat(const Number& n) { return std::holds_alternative<double>(n); }

double ToDouble(const Number& n) {
  return std::visit([](auto v) { return static_cast<double>(v); }, n);
}

// Of a bool or an integer.
int64_t ToInt(const Number& n) {
  return std::visit([](auto v) { return static_cast<int64_t>(v); }, n);
}

bool ToBool(const Number& n) {
  return std::visit([](auto v) { return v != 0; }, n);
}

bool AnyFloat(Args args) {
  for (const Number& n : args) {
    if (IsFloat(n)) return true;
  }
  return false;
}

absl::Status Overflow() {
  return absl::OutOfRangeError("a size overflows a 64-bit integer");
}

absl::Status DivisionByZero() {
  return absl::InvalidArgumentError("a size is divided by zero");
}

int64_t FloorDivide(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && ((a < 0) != (b < 0)) ? 1 : 0);
}

Result Add(Args args) {
  if (AnyFloat(args)) return Number(ToDouble(args[0]) + ToDouble(args[1]));
  int64_t r;
  if (__builtin_add_overflow(ToInt(args[0]), ToInt(args[1]), &r)) {
    return Overflow();
  }
  return Number(r);
}

Result Subtract(Args args) {
  if (AnyFloat(args)) return Number(ToDouble(args[0]) - ToDouble(args[1]));
  int64_t r;
  if (__builtin_sub_overflow(ToInt(args[0]), ToInt(args[1]), &r)) {
    return Overflow();
  }
  return Number(r);
}

Result Multiply(Args args) {
  if (AnyFloat(args)) return Number(ToDouble(args[0]) * ToDouble(args[1]));
  int64_t r;
  if (__builtin_mul_overflow(ToInt(args[0]), ToInt(args[1]), &r)) {
    return Overflow();
  }
  return Number(r);
}

Result FloorDivision(Args args) {
  if (!ToBool(args[1])) return DivisionByZero();
  if (AnyFloat(args)) {
    return Number(std::floor(ToDouble(args[0]) / ToDouble(args[1])));
  }
  const int64_t a = ToInt(args[0]);
  const int64_t b = ToInt(args[1]);
  if (a == INT64_MIN && b == -1) return Overflow();
  return Number(FloorDivide(a, b));
}

Result Modulo(Args args) {
  if (!ToBool(args[1])) return DivisionByZero();
  if (AnyFloat(args)) {
    const double b = ToDouble(args[1]);
    double r = std::fmod(ToDouble(args[0]), b);
    if (r != 0 && (r < 0) != (b < 0)) r += b;
    return Number(r);
  }
  const int64_t a = ToInt(args[0]);
  const int64_t b = ToInt(args[1]);
  if (b == -1) return Number(int64_t{0});
  return Number(a - FloorDivide(a, b) * b);
}

Result TrueDivision(Args args) {
  if (!ToBool(args[1])) return DivisionByZero();
  return Number(ToDouble(args[0]) / ToDouble(args[1]));
}

Result Power(Args args) {
  if (AnyFloat(args) || ToInt(args[1]) < 0) {
    return Number(std::pow(ToDouble(args[0]), ToDouble(args[1])));
  }
  int64_t base = ToInt(args[0]);
  int64_t result = 1;
  for (int64_t exponent = ToInt(args[1]); exponent > 0;) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) {
      return Overflow();
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
      return Overflow();
    }
  }
  return Number(result);
}

Result Negate(Args args) {
  if (IsFloat(args[0])) return Number(-ToDouble(args[0]));
  const Number zero = int64_t{0};
  return Subtract({zero, args[0]});
}

Result Positive(Args args) {
  if (IsFloat(args[0])) return args[0];
  return Number(ToInt(args[0]));
}

template <typename Compare>
Result CompareWith(Args args) {
  if (AnyFloat(args)) {
    return Number(Compare()(ToDouble(args[0]), ToDouble(args[1])));
  }
  return Number(Compare()(ToInt(args[0]), ToInt(args[1])));
}

// Python's and_ and or_ of sizes are those of integers; of bools they stay
// bools.
template <typename Combine>
Result CombineBits(Args args) {
  if (std::holds_alternative<bool>(args[0]) &&
      std::holds_alternative<bool>(args[1])) {
    return Number(Combine()(int{ToBool(args[0])}, int{ToBool(args[1])}) != 0);
  }
  return Number(Combine()(ToInt(args[0]), ToInt(args[1])));
}

Result ShiftLeft(Args args) {
  const int64_t by = ToInt(args[1]);
  if (by < 0 || by > 62) return Overflow();
  const Number factor = int64_t{1} << by;
  return Multiply({args[0], factor});
}

Result ShiftRight(Args args) {
  const int64_t by = ToInt(args[1]);
  if (by < 0) return Overflow();
  return Number(ToInt(args[0]) >> (by > 63 ? 63 : by));
}

Result Not(Args args) { return Number(!ToBool(args[0])); }

Result IfThenElse(Args args) { return ToBool(args[0]) ? args[1] : args[2]; }

Result Maximum(Args args) {
  if (AnyFloat(args)) {
    return Number(std::max(ToDouble(args[0]), ToDouble(args[1])));
  }
  return Number(std::max(ToInt(args[0]), ToInt(args[1])));
}

Result Minimum(Args args) {
  if (AnyFloat(args)) {
    return Number(std::min(ToDouble(args[0]), ToDouble(args[1])));
  }
  return Number(std::min(ToInt(args[0]), ToInt(args[1])));
}

Result ToFloat(Args args) { return Number(ToDouble(args[0])); }

Result SquareRoot(Args args) { return Number(std::sqrt(ToDouble(args[0]))); }

Result Truncate(Args args) {
  if (!IsFloat(args[0])) return Number(ToInt(args[0]));
  const double value = std::trunc(ToDouble(args[0]));
  if (!(std::abs(value) < 0x1p63)) return Overflow();
  return Number(static_cast<int64_t>(value));
}

}  // namespace

const SymbolicOpInfo* FindSymbolicOp(absl::string_view target) {
  static const auto* const kOps =
      new absl::flat_hash_map<std::string, SymbolicOpInfo>{
          {"_operator.add", {Add, 2}},
          {"_operator.sub", {Subtract, 2}},
          {"_operator.mul", {Multiply, 2}},
          {"_operator.floordiv", {FloorDivision, 2}},
          {"_operator.mod", {Modulo, 2}},
          {"_operator.truediv", {TrueDivision, 2}},
          {"_operator.pow", {Power, 2}},
          {"_operator.neg", {Negate, 1}},
          {"_operator.pos", {Positive, 1}},
          {"_operator.eq", {CompareWith<std::equal_to<>>, 2}},
          {"_operator.ne", {CompareWith<std::not_equal_to<>>, 2}},
          {"_operator.lt", {CompareWith<std::less<>>, 2}},
          {"_operator.le", {CompareWith<std::less_equal<>>, 2}},
          {"_operator.gt", {CompareWith<std::greater<>>, 2}},
          {"_operator.ge", {CompareWith<std::greater_equal<>>, 2}},
          {"_operator.and_", {CombineBits<std::bit_and<>>, 2}},
          {"_operator.or_", {CombineBits<std::bit_or<>>, 2}},
          {"_operator.lshift", {ShiftLeft, 2}},
          {"_operator.rshift", {ShiftRight, 2}},
          {"torch.sym_not", {Not, 1}},
          {"torch.sym_ite", {IfThenElse, 3}},
          {"torch.sym_max", {Maximum, 2}},
          {"torch.sym_min", {Minimum, 2}},
          {"torch.sym_float", {ToFloat, 1}},
          {"torch.sym_int", {Truncate, 1}},
          {"torch.sym_sqrt", {SquareRoot, 1}},
          {"math.trunc", {Truncate, 1}},
      };
  const auto it = kOps->find(target);
  return it == kOps->end() ? nullptr : &it->second;
}

}  // namespace pipestage
