#include "worker/torch/symbolic_ops.h"

#include <string>
#include <vector>

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

absl::StatusOr<Number> Compute(const std::string& target,
                               std::vector<Number> args) {
  const SymbolicOpInfo* const info = FindSymbolicOp(target);
  if (info == nullptr) return absl::NotFoundError(target);
  EXPECT_EQ(info->num_args, args.size());
  return info->op(args);
}

Number Int(int64_t value) { return value; }
Number Float(double value) { return value; }

TEST(SymbolicOpsTest, IntegerDivisionAndRemainderFloorAsInPython) {
  EXPECT_THAT(Compute("_operator.floordiv", {Int(-7), Int(2)}),
              IsOkAndHolds(Int(-4)));
  EXPECT_THAT(Compute("_operator.floordiv", {Int(7), Int(-2)}),
              IsOkAndHolds(Int(-4)));
  EXPECT_THAT(Compute("_operator.floordiv", {Int(-8), Int(2)}),
              IsOkAndHolds(Int(-4)));
  EXPECT_THAT(Compute("_operator.mod", {Int(-7), Int(3)}),
              IsOkAndHolds(Int(2)));
  EXPECT_THAT(Compute("_operator.mod", {Int(7), Int(-3)}),
              IsOkAndHolds(Int(-2)));
  EXPECT_THAT(Compute("_operator.mod", {Float(-7.5), Float(2)}),
              IsOkAndHolds(Float(0.5)));
}

TEST(SymbolicOpsTest, TrueDivisionAndRootsAreFloat) {
  EXPECT_THAT(Compute("_operator.truediv", {Int(7), Int(2)}),
              IsOkAndHolds(Float(3.5)));
  EXPECT_THAT(Compute("torch.sym_sqrt", {Int(9)}), IsOkAndHolds(Float(3)));
  EXPECT_THAT(Compute("torch.sym_float", {Int(3)}), IsOkAndHolds(Float(3)));
  EXPECT_THAT(Compute("_operator.pow", {Int(2), Int(-1)}),
              IsOkAndHolds(Float(0.5)));
}

TEST(SymbolicOpsTest, IntegersStayIntegers) {
  EXPECT_THAT(Compute("_operator.add", {Int(2), Int(3)}), IsOkAndHolds(Int(5)));
  EXPECT_THAT(Compute("_operator.pow", {Int(-3), Int(3)}),
              IsOkAndHolds(Int(-27)));
  EXPECT_THAT(Compute("_operator.neg", {Int(3)}), IsOkAndHolds(Int(-3)));
  EXPECT_THAT(Compute("torch.sym_max", {Int(3), Int(5)}), IsOkAndHolds(Int(5)));
  EXPECT_THAT(Compute("math.trunc", {Float(-2.7)}), IsOkAndHolds(Int(-2)));
  EXPECT_THAT(Compute("_operator.mul", {Number(true), Int(4)}),
              IsOkAndHolds(Int(4)));
}

TEST(SymbolicOpsTest, ComparisonsGiveBools) {
  EXPECT_THAT(Compute("_operator.ge", {Int(3), Float(3)}),
              IsOkAndHolds(Number(true)));
  EXPECT_THAT(Compute("_operator.ne", {Int(3), Int(3)}),
              IsOkAndHolds(Number(false)));
  EXPECT_THAT(Compute("_operator.and_", {Number(true), Number(false)}),
              IsOkAndHolds(Number(false)));
  EXPECT_THAT(Compute("_operator.or_", {Int(4), Int(1)}), IsOkAndHolds(Int(5)));
  EXPECT_THAT(Compute("torch.sym_not", {Number(false)}),
              IsOkAndHolds(Number(true)));
  EXPECT_THAT(Compute("torch.sym_ite", {Number(false), Int(1), Int(2)}),
              IsOkAndHolds(Int(2)));
}

TEST(SymbolicOpsTest, OverflowAndDivisionByZeroAreErrors) {
  const Number largest = Int(INT64_MAX);
  for (const char* op : {"_operator.add", "_operator.mul", "_operator.pow"}) {
    EXPECT_THAT(Compute(op, {largest, Int(2)}),
                StatusIs(absl::StatusCode::kOutOfRange))
        << op;
  }
  EXPECT_THAT(Compute("_operator.sub", {Int(INT64_MIN), Int(1)}),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(Compute("_operator.lshift", {Int(1), Int(63)}),
              StatusIs(absl::StatusCode::kOutOfRange));
  for (const char* op :
       {"_operator.floordiv", "_operator.mod", "_operator.truediv"}) {
    EXPECT_THAT(Compute(op, {Int(1), Int(0)}),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << op;
  }
}

TEST(SymbolicOpsTest, OtherTargetsAreNone) {
  EXPECT_EQ(FindSymbolicOp("_operator.getitem"), nullptr);
  EXPECT_EQ(FindSymbolicOp("torch.ops.aten.add.Tensor"), nullptr);
}

}  // namespace
}  // namespace pipestage
