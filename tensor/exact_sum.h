#ifndef PIPESTAGE_TENSOR_EXACT_SUM_H_
#define PIPESTAGE_TENSOR_EXACT_SUM_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace pipestage {

// The exact sum of doubles, rounded once when it is read. Because it is exact,
// it does not depend on the order of the terms nor on how they were grouped: a
// loss is the same number whatever the microbatches, the schedule, the workers
// or the cuts of a data set.
//
// Held as non-overlapping partial sums (J. R. Shewchuk, Adaptive Precision
// Floating-Point Arithmetic, 1997); few in practice. What does not fit into a
// double on the way to a sum that does is set aside and comes back. NaN and
// infinities are counted and make Round() what IEEE addition would: NaN, or the
// infinity.
//
// Thread-compatible.
class ExactSum {
 public:
  ExactSum() = default;
  // From partials() of another process. InvalidArgument for more than
  // kMaxPartials. Any finite or non-finite values are sums of themselves.
  static absl::StatusOr<ExactSum> FromPartials(
      absl::Span<const double> partials);

  // A double has at most 2098 significant bit positions, 53 at a time.
  static constexpr int kMaxPartials = 48;

  void Add(double term);
  void Add(const ExactSum& other);

  // The sum, correctly rounded (to nearest, ties to even).
  double Round() const;

  // What another process needs to go on summing exactly: the same for equal
  // sums, largest first, at most kMaxPartials. A sum that is too large for that
  // (several times the largest double) goes as infinity.
  absl::InlinedVector<double, 4> partials() const;

 private:
  using Partials = absl::InlinedVector<double, 4>;

  // Adds a finite term to partials_ and, if that overflows, to carry_.
  void Grow(double term);
  // Takes from carry_ what partials_ has room for.
  void ReturnCarry();
  double RoundLarge() const;

  Partials partials_;   // finite, non-overlapping, increasing magnitude
  int64_t carry_ = 0;   // what did not fit, in units of 2^1023
  double special_ = 0;  // sum of the non-finite terms
  bool has_special_ = false;
};

// Losses of some rows: what a stage returns and what microbatches, calls and
// jobs add up.
struct LossSum {
  ExactSum sum;
  int64_t weight = 0;     // valid rows or tokens
  int64_t nonfinite = 0;  // terms that were NaN or infinite

  void Add(const LossSum& other) {
    sum.Add(other.sum);
    weight += other.weight;
    nonfinite += other.nonfinite;
  }
};

}  // namespace pipestage

#endif  // PIPESTAGE_TENSOR_EXACT_SUM_H_
