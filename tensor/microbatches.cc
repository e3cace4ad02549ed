#include "tensor/microbatches.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace pipestage {

absl::StatusOr<Microbatches> Microbatches::Create(int64_t rows, int64_t count) {
  if (rows < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch needs at least 1 row; it has ", rows));
  }
  if (count < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a batch needs at least 1 microbatch; ", count, " are wanted"));
  }
  const int64_t used = std::min(rows, count);
  if (used > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat(used, " microbatches are too many"));
  }
  return Microbatches(rows, static_cast<int32_t>(used));
}

int64_t Microbatches::first_row(MicrobatchIndex m) const {
  // Each microbatch before m has rows_ / count_ rows; the first of them one
  // more.
  const int64_t before = m.value();
  return before * (rows_ / count_) + std::min(before, rows_ % count_);
}

}  // namespace pipestage
