#include "worker/torch/exact_terms.h"

#include <cmath>
#include <utility>

namespace pipestage {
namespace {

// Terms within these bounds can be added up without overflow, and multiplied by
// a weight without losing bits to underflow.
constexpr double kLargest = 0x1p900;
constexpr double kSmallest = 0x1p-900;

// a + b as the rounded sum and what rounding took from it, exactly.
std::pair<double, double> TwoSum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

bool IsOrdinary(double term) {
  const double magnitude = std::abs(term);
  return (magnitude < kLargest && magnitude > kSmallest) || term == 0;
}

}  // namespace

void ExactTerms::Add(double term, int64_t weight) {
  if (weight == 0) return;
  weight_ += weight;
  if (!std::isfinite(term)) nonfinite_ += weight;
  if (!IsOrdinary(term)) {
    AddWeighted(term, weight);
  } else if (weight == 1) {
    AddFinite(term);
  } else {
    const double factor = static_cast<double>(weight);
    const double product = term * factor;
    AddFinite(product);
    AddFinite(std::fma(term, factor, -product));
  }
}

// term * weight by doubling, which is exact at any magnitude.
void ExactTerms::AddWeighted(double term, int64_t weight) {
  if (!std::isfinite(term)) {
    rest_.Add(term);
    return;
  }
  ExactSum power;
  power.Add(term);
  for (; weight > 0; weight >>= 1) {
    if (weight & 1) rest_.Add(power);
    power.Add(ExactSum(power));
  }
}

void ExactTerms::AddFinite(double term) {
  const auto [high, lost] = TwoSum(high_, term);
  high_ = high;
  if (lost == 0) return;
  const auto [low, rest] = TwoSum(low_, lost);
  low_ = low;
  if (rest != 0) rest_.Add(rest);
}

LossSum ExactTerms::Total() const {
  LossSum total;
  total.sum = rest_;
  total.sum.Add(high_);
  total.sum.Add(low_);
  total.weight = weight_;
  total.nonfinite = nonfinite_;
  return total;
}

}  // namespace pipestage
