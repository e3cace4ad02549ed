#ifndef PIPESTAGE_WORKER_TORCH_SYMBOLIC_OPS_H_
#define PIPESTAGE_WORKER_TORCH_SYMBOLIC_OPS_H_

#include <cstdint>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pipestage {

// A number that a program computes from sizes.
using Number = std::variant<bool, int64_t, double>;

// Computes with Python's meaning: // and % floor, / is exact division, bool is
// an integer. OutOfRange if an integer overflows, InvalidArgument for a
// division by zero.
using SymbolicOp = absl::StatusOr<Number> (*)(absl::Span<const Number> args);

struct SymbolicOpInfo {
  SymbolicOp op = nullptr;
  int num_args = 0;
};

// The op that torch.export calls `target` ("_operator.floordiv",
// "torch.sym_max"); null if there is none.
const SymbolicOpInfo* FindSymbolicOp(absl::string_view target);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_SYMBOLIC_OPS_H_
