#include "tensor/dtype.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace pipestage {
namespace {

struct Row {
  DType dtype;
  size_t size;
  absl::string_view name;
  bool floating;
};

constexpr std::array<Row, 10> kRows = {{
    {DType::kBool, 1, "bool", false},
    {DType::kUint8, 1, "uint8", false},
    {DType::kInt8, 1, "int8", false},
    {DType::kInt16, 2, "int16", false},
    {DType::kInt32, 4, "int32", false},
    {DType::kInt64, 8, "int64", false},
    {DType::kFloat16, 2, "float16", true},
    {DType::kBFloat16, 2, "bfloat16", true},
    {DType::kFloat32, 4, "float32", true},
    {DType::kFloat64, 8, "float64", true},
}};

// A DType's value is its row's position plus one: RowOf needs no search.
constexpr bool RowsAreInOrder() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].dtype) != i + 1) return false;
  }
  return true;
}
static_assert(RowsAreInOrder());

const Row& RowOf(DType dtype) { return kRows[static_cast<size_t>(dtype) - 1]; }

}  // namespace

size_t ElementSize(DType dtype) { return RowOf(dtype).size; }

absl::string_view DTypeName(DType dtype) { return RowOf(dtype).name; }

std::optional<DType> DTypeFromName(absl::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

bool IsFloatingPoint(DType dtype) { return RowOf(dtype).floating; }

v1::DType ToProto(DType dtype) { return static_cast<v1::DType>(dtype); }

absl::StatusOr<DType> DTypeFromProto(int dtype) {
  if (dtype == v1::DTYPE_UNSPECIFIED) {
    return absl::InvalidArgumentError("dtype is unspecified");
  }
  if (dtype < 1 || dtype > static_cast<int>(kRows.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype ", dtype, " is not known"));
  }
  return static_cast<DType>(dtype);
}

}  // namespace pipestage
