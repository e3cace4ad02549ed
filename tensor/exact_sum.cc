#include "tensor/exact_sum.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace pipestage {
namespace {

// The unit of carry_: the largest power of two that is a double.
constexpr double kUnit = 0x1p1023;

// The sum of non-overlapping partials of increasing magnitude, correctly
// rounded, as CPython's math.fsum does it. No addition of two of them may
// overflow.
double RoundPartials(absl::Span<const double> p) {
  size_t n = p.size();
  if (n == 0) return 0;
  double hi = p[--n];
  double lo = 0;
  while (n > 0) {
    const double x = hi;
    const double y = p[--n];
    hi = x + y;
    lo = y - (hi - x);
    if (lo != 0) break;
  }
  // hi + lo is a tie that went to even, but what is left lies on lo's side.
  if (n > 0 && ((lo < 0 && p[n - 1] < 0) || (lo > 0 && p[n - 1] > 0))) {
    const double y = lo * 2;
    const double x = hi + y;
    if (y == x - hi) hi = x;
  }
  return hi;
}

// A quarter of `x`; for what is too small to be divided, the smallest double of
// its sign, which breaks a tie as well.
double Quarter(double x) {
  const double quarter = x * 0.25;
  if (quarter * 4 == x) return quarter;
  return std::copysign(std::numeric_limits<double>::denorm_min(), x);
}

}  // namespace

absl::StatusOr<ExactSum> ExactSum::FromPartials(
    absl::Span<const double> partials) {
  if (partials.size() > kMaxPartials) {
    return absl::InvalidArgumentError(
        absl::StrCat("a sum has ", partials.size(), " partial sums; at most ",
                     kMaxPartials, " are possible"));
  }
  ExactSum sum;
  for (const double partial : partials) sum.Add(partial);
  return sum;
}

void ExactSum::Add(double term) {
  if (!std::isfinite(term)) {
    special_ += term;
    has_special_ = true;
    return;
  }
  Grow(term);
  if (carry_ != 0) ReturnCarry();
}

void ExactSum::Add(const ExactSum& other) {
  // A copy, for `other` may be this.
  const Partials terms = other.partials_;
  carry_ += other.carry_;
  special_ += other.special_;
  has_special_ = has_special_ || other.has_special_;
  for (const double term : terms) Grow(term);
  if (carry_ != 0) ReturnCarry();
}

void ExactSum::Grow(double term) {
  double x = term;
  size_t kept = 0;
  for (double y : partials_) {
    if (std::fabs(x) < std::fabs(y)) std::swap(x, y);
    while (std::isinf(x + y)) {
      // x is at least half of what is too much, so the difference is exact.
      x -= std::copysign(kUnit, x);
      carry_ += y < 0 ? -1 : 1;
      if (std::fabs(x) < std::fabs(y)) std::swap(x, y);
    }
    const double hi = x + y;
    const double lo = y - (hi - x);
    if (lo != 0) partials_[kept++] = lo;
    x = hi;
  }
  partials_.resize(kept);
  if (x != 0) partials_.push_back(x);
}

void ExactSum::ReturnCarry() {
  // So that a carry is left only where the sum is larger than 2^1023.
  while (carry_ != 0) {
    const double sign = carry_ < 0 ? -1 : 1;
    const double top = partials_.empty() ? 0 : partials_.back() * sign;
    if (top >= kUnit / 2) return;
    carry_ -= carry_ < 0 ? -1 : 1;
    Grow(sign * kUnit);
  }
}

double ExactSum::Round() const {
  if (has_special_) {
    return std::isnan(special_) ? std::numeric_limits<double>::quiet_NaN()
                                : special_;
  }
  const bool large = carry_ != 0 || (!partials_.empty() &&
                                     std::fabs(partials_.back()) >= kUnit);
  return large ? RoundLarge() : RoundPartials(partials_);
}

double ExactSum::RoundLarge() const {
  // With a carry of two the rest has the same sign: beyond 2 * kUnit.
  if (carry_ > 1) return std::numeric_limits<double>::infinity();
  if (carry_ < -1) return -std::numeric_limits<double>::infinity();
  // Rounded at a quarter, where nothing overflows.
  ExactSum quarter;
  quarter.Grow(static_cast<double>(carry_) * (kUnit / 4));
  for (size_t i = partials_.size(); i-- > 0;) {
    const double part = Quarter(partials_[i]);
    quarter.Grow(part);
    if (part * 4 != partials_[i]) break;  // smaller ones change nothing more
  }
  return RoundPartials(quarter.partials_) * 4;
}

absl::InlinedVector<double, 4> ExactSum::partials() const {
  Partials out;
  if (has_special_) out.push_back(Round());
  ExactSum rest = has_special_ ? ExactSum() : *this;
  while (!rest.partials_.empty() && out.size() <= kMaxPartials) {
    double part = rest.Round();
    if (std::isinf(part)) part = std::copysign(kUnit, part);
    out.push_back(part);
    rest.Add(-part);
  }
  if (out.size() > kMaxPartials) {
    out.assign(
        1, std::copysign(std::numeric_limits<double>::infinity(), out.front()));
  }
  return out;
}

}  // namespace pipestage
