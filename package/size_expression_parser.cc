#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "package/size_expression_node.h"

namespace pipestage {
namespace {

using Node = SizeExpression::Node;
using NodePtr = std::unique_ptr<const Node>;

bool IsNameStart(char c) { return absl::ascii_isalpha(c) || c == '_'; }
bool IsNamePart(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// Recursive descent: sum of terms of operands, each left-associative.
class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<NodePtr> ParseAll() {
    PIPESTAGE_ASSIGN_OR_RETURN(NodePtr root, ParseSum());
    if (!AtEnd()) return Expected("an operator or the end");
    return root;
  }

 private:
  absl::StatusOr<NodePtr> ParseSum() {
    PIPESTAGE_ASSIGN_OR_RETURN(NodePtr left, ParseTerm());
    while (true) {
      Node::Kind kind;
      if (Take("+")) {
        kind = Node::Kind::kAdd;
      } else if (Take("-")) {
        kind = Node::Kind::kSubtract;
      } else {
        return left;
      }
      PIPESTAGE_ASSIGN_OR_RETURN(NodePtr right, ParseTerm());
      PIPESTAGE_ASSIGN_OR_RETURN(
          left, MakeNode(kind, std::move(left), std::move(right)));
    }
  }

  absl::StatusOr<NodePtr> ParseTerm() {
    PIPESTAGE_ASSIGN_OR_RETURN(NodePtr left, ParseOperand());
    while (true) {
      Node::Kind kind;
      if (Take("*")) {
        kind = Node::Kind::kMultiply;
      } else if (Take("//")) {
        kind = Node::Kind::kFloorDivide;
      } else if (Take("%")) {
        kind = Node::Kind::kModulo;
      } else {
        return left;
      }
      PIPESTAGE_ASSIGN_OR_RETURN(NodePtr right, ParseOperand());
      PIPESTAGE_ASSIGN_OR_RETURN(
          left, MakeNode(kind, std::move(left), std::move(right)));
    }
  }

  absl::StatusOr<NodePtr> ParseOperand() {
    SkipSpaces();
    if (position_ < text_.size()) {
      if (absl::ascii_isdigit(text_[position_])) return ParseNumber();
      if (IsNameStart(text_[position_])) return ParseName();
    }
    const bool minus = Take("-");
    if (!minus && !Take("(")) return Expected("a number, a name or \"(\"");
    if (++nesting_ > kMaxExpressionDepth) return TooDeep();
    absl::StatusOr<NodePtr> inner = minus ? ParseOperand() : ParseSum();
    --nesting_;
    if (!inner.ok()) return inner;
    if (minus) return MakeNode(Node::Kind::kNegate, *std::move(inner), nullptr);
    if (!Take(")")) return Expected("an operator or \")\"");
    return inner;
  }

  absl::StatusOr<NodePtr> ParseNumber() {
    const size_t start = position_;
    const absl::string_view digits = TakeWhile(absl::ascii_isdigit);
    auto node = std::make_unique<Node>();
    node->kind = Node::Kind::kConstant;
    if (!absl::SimpleAtoi(digits, &node->constant)) {
      position_ = start;
      return Expected("a number below 2^63");
    }
    if (digits.size() > 1 && digits[0] == '0') {
      position_ = start;
      return Expected("a number without leading zeros");
    }
    return node;
  }

  absl::StatusOr<NodePtr> ParseName() {
    auto node = std::make_unique<Node>();
    node->kind = Node::Kind::kName;
    node->name = std::string(TakeWhile(IsNamePart));
    return node;
  }

  absl::StatusOr<NodePtr> MakeNode(Node::Kind kind, NodePtr left,
                                   NodePtr right) {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->depth = 1 + std::max(left->depth, right ? right->depth : 0);
    if (node->depth > kMaxExpressionDepth) return TooDeep();
    node->left = std::move(left);
    node->right = std::move(right);
    return node;
  }

  void SkipSpaces() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }
  bool AtEnd() {
    SkipSpaces();
    return position_ == text_.size();
  }
  bool Take(absl::string_view token) {
    SkipSpaces();
    if (text_.substr(position_, token.size()) != token) return false;
    position_ += token.size();
    return true;
  }
  template <typename Predicate>
  absl::string_view TakeWhile(Predicate predicate) {
    const size_t start = position_;
    while (position_ < text_.size() && predicate(text_[position_])) {
      ++position_;
    }
    return text_.substr(start, position_ - start);
  }

  absl::Status Expected(absl::string_view what) {
    SkipSpaces();
    const absl::string_view rest = text_.substr(position_);
    return absl::InvalidArgumentError(absl::StrCat(
        "size \"", text_, "\": expected ", what, " at position ", position_,
        rest.empty() ? ", the end" : absl::StrCat(", before \"", rest, "\"")));
  }
  absl::Status TooDeep() const {
    return absl::InvalidArgumentError(
        absl::StrCat("size \"", text_.substr(0, 40), "...\": nested more than ",
                     kMaxExpressionDepth, " deep"));
  }

  const absl::string_view text_;
  size_t position_ = 0;
  int nesting_ = 0;  // of parentheses and minuses around the position
};

}  // namespace

absl::StatusOr<NodePtr> ParseSizeTree(absl::string_view text) {
  return Parser(text).ParseAll();
}

}  // namespace pipestage
