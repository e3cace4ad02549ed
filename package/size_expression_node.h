#ifndef PIPESTAGE_PACKAGE_SIZE_EXPRESSION_NODE_H_
#define PIPESTAGE_PACKAGE_SIZE_EXPRESSION_NODE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "package/size_expression.h"

namespace pipestage {

// Internal to the library: the syntax tree between parser and evaluation.
struct SizeExpression::Node {
  // The binary ones have both operands, kNegate has `left`.
  enum class Kind {
    kUnknown,  // "?"
    kConstant,
    kName,
    kNegate,
    kAdd,
    kSubtract,
    kMultiply,
    kFloorDivide,
    kModulo,
  };

  Kind kind = Kind::kConstant;
  int depth = 1;  // of this tree
  int64_t constant = 0;
  std::string name;
  std::unique_ptr<const Node> left;
  std::unique_ptr<const Node> right;
};

// Trees are walked by recursion, so their depth is limited.
inline constexpr int kMaxExpressionDepth = 64;

// InvalidArgument with the position and what was expected there.
absl::StatusOr<std::unique_ptr<const SizeExpression::Node>> ParseSizeTree(
    absl::string_view text);

}  // namespace pipestage

#endif  // PIPESTAGE_PACKAGE_SIZE_EXPRESSION_NODE_H_
