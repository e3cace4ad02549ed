#ifndef PIPESTAGE_TENSOR_MICROBATCHES_H_
#define PIPESTAGE_TENSOR_MICROBATCHES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/ids.h"

namespace pipestage {

// How B rows fall into M microbatches: sizes differ by at most one, larger
// first; none is empty. A value; thread-safe to read.
class Microbatches {
 public:
  // InvalidArgument unless rows >= 1 and count >= 1. A count above `rows` is
  // lowered to `rows`.
  static absl::StatusOr<Microbatches> Create(int64_t rows, int64_t count);

  int64_t total_rows() const { return rows_; }
  int32_t count() const { return count_; }
  // Rows of microbatch m, and the row of the batch at which it starts.
  int64_t rows(MicrobatchIndex m) const {
    return rows_ / count_ + (m.value() < rows_ % count_ ? 1 : 0);
  }
  int64_t first_row(MicrobatchIndex m) const;
  int64_t max_rows() const { return rows(MicrobatchIndex(0)); }

 private:
  Microbatches(int64_t rows, int32_t count) : rows_(rows), count_(count) {}

  int64_t rows_;
  int32_t count_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_TENSOR_MICROBATCHES_H_
