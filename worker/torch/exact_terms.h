#ifndef PIPESTAGE_WORKER_TORCH_EXACT_TERMS_H_
#define PIPESTAGE_WORKER_TORCH_EXACT_TERMS_H_

#include <cstdint>

#include "tensor/exact_sum.h"

namespace pipestage {

// Adds many terms to a LossSum, exactly and fast: almost all of them stay in
// two doubles, of which the second holds what the first rounded away.
//
// Thread-compatible.
class ExactTerms {
 public:
  // `weight` terms of this value. A term of weight 0 does not count, whatever
  // its value. The weight is at most kMaxWeight, and not negative.
  void Add(double term, int64_t weight);

  // Everything added so far.
  LossSum Total() const;

  // Integers up to here are doubles.
  static constexpr int64_t kMaxWeight = int64_t{1} << 53;

 private:
  void AddFinite(double term);
  void AddWeighted(double term, int64_t weight);

  double high_ = 0;
  double low_ = 0;
  ExactSum rest_;
  int64_t weight_ = 0;
  int64_t nonfinite_ = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_EXACT_TERMS_H_
