#include "worker/transport/reduce_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace pipestage {
namespace {

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

// Rounds the bits below `shift` away, to nearest, ties to even.
uint32_t RoundShift(uint32_t value, int shift) {
  const uint32_t half = (1u << (shift - 1)) - 1;
  return (value + half + ((value >> shift) & 1)) >> shift;
}

float Widen(BFloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

float Widen(Float16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16;
  const uint32_t magnitude = x.bits & 0x7fff;
  if (magnitude >= 0x7c00) {  // infinity or NaN
    return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  }
  // Read as a float32 the exponent is 112 too small; the product is exact, also
  // for subnormals.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

void Narrow(float value, BFloat16& out) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  out.bits = is_nan ? (bits >> 16) | 0x40 : RoundShift(bits, 16);
}

void Narrow(float value, Float16& out) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {  // NaN
    out.bits = sign | 0x7e00;
  } else if (magnitude >= 0x477ff000) {  // rounds to 65536 or more: infinity
    out.bits = sign | 0x7c00;
  } else if (magnitude >= 0x38800000) {  // normal
    out.bits = sign | RoundShift(magnitude - 0x38000000, 13);
  } else {
    // Adding 0.5 leaves the multiples of 2^-24, rounded to even, in the low
    // bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    out.bits = sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000);
  }
}

template <typename T>
T Widen(T x) {
  return x;
}
template <typename T>
void Narrow(T value, T& out) {
  out = value;
}

// Element: as it lies in memory. Sum: what it is added in. Memory need not be
// aligned, and `out` may be an input: a block is read whole before it is
// written.
template <typename Element, typename Sum>
void SumAs(absl::Span<const void* const> inputs, size_t count, void* out) {
  constexpr size_t kBlock = 512;
  std::array<Element, kBlock> elements;
  std::array<Sum, kBlock> sums;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t n = std::min(kBlock, count - begin);
    for (size_t k = 0; k < inputs.size(); ++k) {
      std::memcpy(elements.data(),
                  static_cast<const Element*>(inputs[k]) + begin,
                  n * sizeof(Element));
      for (size_t i = 0; i < n; ++i) {
        const Sum term = static_cast<Sum>(Widen(elements[i]));
        sums[i] = k == 0 ? term : static_cast<Sum>(sums[i] + term);
      }
    }
    for (size_t i = 0; i < n; ++i) Narrow(sums[i], elements[i]);
    std::memcpy(static_cast<Element*>(out) + begin, elements.data(),
                n * sizeof(Element));
  }
}

}  // namespace

absl::Status SumElements(DType dtype, absl::Span<const void* const> inputs,
                         size_t count, void* out) {
  if (inputs.empty()) return absl::InvalidArgumentError("nothing to sum");
  switch (dtype) {
    case DType::kBool:
      return absl::InvalidArgumentError("bool elements have no sum");
    // Two's complement: unsigned addition is signed addition that may wrap.
    case DType::kUint8:
    case DType::kInt8:
      SumAs<uint8_t, uint8_t>(inputs, count, out);
      break;
    case DType::kInt16:
      SumAs<uint16_t, uint16_t>(inputs, count, out);
      break;
    case DType::kInt32:
      SumAs<uint32_t, uint32_t>(inputs, count, out);
      break;
    case DType::kInt64:
      SumAs<uint64_t, uint64_t>(inputs, count, out);
      break;
    case DType::kFloat16:
      SumAs<Float16, float>(inputs, count, out);
      break;
    case DType::kBFloat16:
      SumAs<BFloat16, float>(inputs, count, out);
      break;
    case DType::kFloat32:
      SumAs<float, float>(inputs, count, out);
      break;
    case DType::kFloat64:
      SumAs<double, double>(inputs, count, out);
      break;
  }
  return absl::OkStatus();
}

}  // namespace pipestage
