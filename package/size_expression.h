#ifndef PIPESTAGE_PACKAGE_SIZE_EXPRESSION_H_
#define PIPESTAGE_PACKAGE_SIZE_EXPRESSION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pipestage {

// The name of the batch axis' size. Within a microbatch it is that microbatch's
// rows.
inline constexpr absl::string_view kRowsName = "rows";

// Values of the named sizes of one call. Few; a linear search is fastest.
class Sizes {
 public:
  void Set(absl::string_view name, int64_t size);
  std::optional<int64_t> Get(absl::string_view name) const;
  const std::vector<std::pair<std::string, int64_t>>& all() const {
    return sizes_;
  }
  // "rows=3, seq=128".
  std::string ToString() const;

 private:
  std::vector<std::pair<std::string, int64_t>> sizes_;
};

// The size of one axis in a contract, as text such as "128", "rows",
// "rows*4+1",
// "(seq-1)//2", "seq%8": integers, names, + - * // % and parentheses, with
// Python's meaning of // and %. Or "?": known only when the tensor is there,
// allowed in a model's outputs alone. A minus may stand before any operand.
// Immutable; cheap to copy.
class SizeExpression {
 public:
  // InvalidArgument with the position and what was expected.
  static absl::StatusOr<SizeExpression> Parse(absl::string_view text);
  static SizeExpression Constant(int64_t size);

  // FailedPrecondition for "?". InvalidArgument if a name has no value, the
  // result is negative, or the arithmetic overflows or divides by zero.
  absl::StatusOr<int64_t> Evaluate(const Sizes& sizes) const;

  bool is_data_dependent() const;  // "?"
  // Set if the expression is just a number, or just a name.
  std::optional<int64_t> constant() const;
  std::optional<std::string> name() const;
  bool Mentions(absl::string_view name) const;
  // Every name mentioned, once, in order.
  std::vector<std::string> Names() const;
  // Without the spaces it was written with.
  const std::string& text() const { return text_; }

  // The same operations on the same operands: "(rows)" is "rows", but "2*rows"
  // is not "rows*2".
  friend bool operator==(const SizeExpression& a, const SizeExpression& b);

  struct Node;  // of the syntax tree; internal

 private:
  SizeExpression(std::string text, std::shared_ptr<const Node> root);

  std::string text_;
  std::shared_ptr<const Node> root_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_PACKAGE_SIZE_EXPRESSION_H_
