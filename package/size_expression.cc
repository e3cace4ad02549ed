#include "package/size_expression.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "package/size_expression_node.h"

namespace pipestage {
namespace {

using Node = SizeExpression::Node;

// Python's //: rounds towards minus infinity. False on overflow; b is not 0.
bool FloorDivide(int64_t a, int64_t b, int64_t* result) {
  if (b == -1) return !__builtin_sub_overflow(0, a, result);
  *result = a / b;
  if (a % b != 0 && (a < 0) != (b < 0)) --*result;
  return true;
}

// Python's %: the result has the sign of b, which is not 0.
int64_t Modulo(int64_t a, int64_t b) {
  if (b == -1) return 0;  // INT64_MIN % -1 would trap
  const int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b
                                                      : remainder;
}

absl::StatusOr<int64_t> Apply(Node::Kind kind, int64_t a, int64_t b) {
  int64_t result = 0;
  bool fits = true;
  switch (kind) {
    case Node::Kind::kAdd:
      fits = !__builtin_add_overflow(a, b, &result);
      break;
    case Node::Kind::kSubtract:
      fits = !__builtin_sub_overflow(a, b, &result);
      break;
    case Node::Kind::kMultiply:
      fits = !__builtin_mul_overflow(a, b, &result);
      break;
    case Node::Kind::kFloorDivide:
      if (b == 0) return absl::InvalidArgumentError("division by zero");
      fits = FloorDivide(a, b, &result);
      break;
    case Node::Kind::kModulo:
      if (b == 0) return absl::InvalidArgumentError("division by zero");
      result = Modulo(a, b);
      break;
    default:
      return absl::InternalError("not a binary operation");
  }
  if (!fits) return absl::InvalidArgumentError("the arithmetic overflows");
  return result;
}

absl::StatusOr<int64_t> EvaluateNode(const Node& node, const Sizes& sizes) {
  switch (node.kind) {
    case Node::Kind::kUnknown:
      return absl::FailedPreconditionError(
          "known only when the tensor is there");
    case Node::Kind::kConstant:
      return node.constant;
    case Node::Kind::kName: {
      const std::optional<int64_t> size = sizes.Get(node.name);
      if (size) return *size;
      return absl::InvalidArgumentError(
          absl::StrCat("no value for \"", node.name, "\""));
    }
    case Node::Kind::kNegate: {
      PIPESTAGE_ASSIGN_OR_RETURN(const int64_t a,
                                 EvaluateNode(*node.left, sizes));
      return Apply(Node::Kind::kSubtract, 0, a);
    }
    default: {
      PIPESTAGE_ASSIGN_OR_RETURN(const int64_t a,
                                 EvaluateNode(*node.left, sizes));
      PIPESTAGE_ASSIGN_OR_RETURN(const int64_t b,
                                 EvaluateNode(*node.right, sizes));
      return Apply(node.kind, a, b);
    }
  }
}

void CollectNames(const Node* node, std::vector<std::string>& names) {
  if (node == nullptr) return;
  if (node->kind == Node::Kind::kName &&
      std::find(names.begin(), names.end(), node->name) == names.end()) {
    names.push_back(node->name);
  }
  CollectNames(node->left.get(), names);
  CollectNames(node->right.get(), names);
}

bool Mentioned(const Node* node, absl::string_view name) {
  if (node == nullptr) return false;
  if (node->kind == Node::Kind::kName) return node->name == name;
  return Mentioned(node->left.get(), name) ||
         Mentioned(node->right.get(), name);
}

bool Equal(const Node* a, const Node* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->kind == b->kind && a->constant == b->constant &&
         a->name == b->name && Equal(a->left.get(), b->left.get()) &&
         Equal(a->right.get(), b->right.get());
}

}  // namespace

void Sizes::Set(absl::string_view name, int64_t size) {
  for (auto& [known, value] : sizes_) {
    if (known == name) {
      value = size;
      return;
    }
  }
  sizes_.emplace_back(name, size);
}

std::optional<int64_t> Sizes::Get(absl::string_view name) const {
  for (const auto& [known, value] : sizes_) {
    if (known == name) return value;
  }
  return std::nullopt;
}

std::string Sizes::ToString() const {
  return absl::StrJoin(sizes_, ", ", absl::PairFormatter("="));
}

SizeExpression::SizeExpression(std::string text,
                               std::shared_ptr<const Node> root)
    : text_(std::move(text)), root_(std::move(root)) {}

absl::StatusOr<SizeExpression> SizeExpression::Parse(absl::string_view text) {
  if (absl::StripAsciiWhitespace(text) == "?") {
    auto node = std::make_shared<Node>();
    node->kind = Node::Kind::kUnknown;
    return SizeExpression("?", std::move(node));
  }
  PIPESTAGE_ASSIGN_OR_RETURN(std::shared_ptr<const Node> root,
                             ParseSizeTree(text));
  return SizeExpression(absl::StrReplaceAll(text, {{" ", ""}}),
                        std::move(root));
}

SizeExpression SizeExpression::Constant(int64_t size) {
  auto node = std::make_shared<Node>();
  node->constant = size;
  return SizeExpression(absl::StrCat(size), std::move(node));
}

absl::StatusOr<int64_t> SizeExpression::Evaluate(const Sizes& sizes) const {
  const absl::StatusOr<int64_t> size = EvaluateNode(*root_, sizes);
  if (size.ok() && *size >= 0) return size;
  const std::string under =
      sizes.all().empty() ? "" : absl::StrCat(" with ", sizes.ToString());
  if (size.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("size \"", text_, "\" is ", *size, under));
  }
  return absl::Status(size.status().code(),
                      absl::StrCat("size \"", text_, "\"", under, ": ",
                                   size.status().message()));
}

bool SizeExpression::is_data_dependent() const {
  return root_->kind == Node::Kind::kUnknown;
}

std::optional<int64_t> SizeExpression::constant() const {
  if (root_->kind != Node::Kind::kConstant) return std::nullopt;
  return root_->constant;
}

std::optional<std::string> SizeExpression::name() const {
  if (root_->kind != Node::Kind::kName) return std::nullopt;
  return root_->name;
}

bool SizeExpression::Mentions(absl::string_view name) const {
  return Mentioned(root_.get(), name);
}

std::vector<std::string> SizeExpression::Names() const {
  std::vector<std::string> names;
  CollectNames(root_.get(), names);
  return names;
}

bool operator==(const SizeExpression& a, const SizeExpression& b) {
  return Equal(a.root_.get(), b.root_.get());
}

}  // namespace pipestage
