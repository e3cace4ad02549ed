#include "package/binding.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error_info.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "package/testing/example_contract.h"

namespace pipestage {
namespace {

using ::testing::Eq;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

using Json = nlohmann::json;
using Tensors = std::map<std::string, HostTensor>;

PackageContract Parsed(const Json& json) {
  absl::StatusOr<PackageContract> contract = ParseContract(json.dump());
  EXPECT_THAT(contract, IsOk());
  return contract.ok() ? *std::move(contract) : PackageContract();
}

// byte-lm@1: tokens int64 [rows,seq], scale float32 [], targets int64
// [rows,seq]; seq from 2 to 512.
PackageContract Example() { return Parsed(ExampleContract()); }

HostTensor Zeros(DType dtype, Shape shape) {
  const int64_t bytes = *NumBytes(dtype, shape);
  return {dtype, std::move(shape), Buffer::FromString(std::string(bytes, 0))};
}

Tensors GoodInputs() {
  return {{"tokens", Zeros(DType::kInt64, {3, 16})},
          {"scale", Zeros(DType::kFloat32, {})}};
}

Tensors GoodTargets() { return {{"targets", Zeros(DType::kInt64, {3, 16})}}; }

void ExpectRefused(const absl::StatusOr<Binding>& binding,
                   absl::string_view reason, const std::string& message) {
  EXPECT_THAT(binding, StatusIs(kInvalid, Eq(message)));
  EXPECT_EQ(GetReason(binding.status()), reason);
}

TEST(BindCallTest, SizesComeFromTheTensors) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const Binding binding, BindCall(Example(), GoodInputs(), GoodTargets(),
                                      /*need_targets=*/true));

  EXPECT_EQ(binding.rows, 3);
  EXPECT_EQ(binding.sizes.ToString(), "seq=16");
}

TEST(BindCallTest, TargetsAreNeededOnlyIfAskedFor) {
  EXPECT_THAT(BindCall(Example(), GoodInputs(), {}, /*need_targets=*/false),
              IsOk());
  ExpectRefused(BindCall(Example(), GoodInputs(), {}, /*need_targets=*/true),
                reason::kInvalidInput,
                "target \"targets\" is missing; model byte-lm@1 takes "
                "\"targets\"");
  ExpectRefused(
      BindCall(Example(), GoodInputs(), GoodTargets(), /*need_targets=*/false),
      reason::kInvalidInput,
      "target \"targets\" is not known; model byte-lm@1 takes no targets here");
}

TEST(BindCallTest, MissingInputIsNamedWithThoseThatExist) {
  Tensors inputs = GoodInputs();
  inputs.erase("scale");

  ExpectRefused(BindCall(Example(), inputs, {}, false), reason::kInvalidInput,
                "input \"scale\" is missing; model byte-lm@1 takes \"tokens\", "
                "\"scale\"");
}

TEST(BindCallTest, MisnamedInputIsNamedWithThoseThatExist) {
  Tensors inputs = GoodInputs();
  inputs["token"] = inputs["tokens"];
  inputs.erase("tokens");

  ExpectRefused(BindCall(Example(), inputs, {}, false), reason::kInvalidInput,
                "input \"token\" is not known; model byte-lm@1 takes "
                "\"tokens\", \"scale\"");
}

TEST(BindCallTest, WrongDTypeIsNamedWithTheRightOne) {
  Tensors inputs = GoodInputs();
  inputs["tokens"] = Zeros(DType::kFloat32, {3, 16});

  ExpectRefused(BindCall(Example(), inputs, {}, false), reason::kInvalidInput,
                "input \"tokens\" has dtype float32; model byte-lm@1 takes "
                "int64");
}

TEST(BindCallTest, WrongNumberOfAxesShowsBothShapes) {
  Tensors inputs = GoodInputs();
  inputs["tokens"] = Zeros(DType::kInt64, {3});
  ExpectRefused(BindCall(Example(), inputs, {}, false), reason::kShapeMismatch,
                "input \"tokens\" has 1 axis, [3]; model byte-lm@1 takes 2, "
                "[rows,seq]");

  inputs = GoodInputs();
  inputs["scale"] = Zeros(DType::kFloat32, {1});
  ExpectRefused(BindCall(Example(), inputs, {}, false), reason::kShapeMismatch,
                "input \"scale\" has 1 axis, [1]; model byte-lm@1 takes 0, []");
}

TEST(BindCallTest, RowsThatDisagreeAreShownWithWhoSaidThemFirst) {
  const Tensors targets = {{"targets", Zeros(DType::kInt64, {4, 16})}};

  ExpectRefused(BindCall(Example(), GoodInputs(), targets, true),
                reason::kShapeMismatch,
                "target \"targets\" has shape [4,16]: axis 0 is 4; rows is 3 "
                "by input \"tokens\"");
}

TEST(BindCallTest, NamedSizesThatDisagreeAreShown) {
  const Tensors targets = {{"targets", Zeros(DType::kInt64, {3, 17})}};

  ExpectRefused(BindCall(Example(), GoodInputs(), targets, true),
                reason::kShapeMismatch,
                "target \"targets\" has shape [3,17]: axis 1 is 17; seq is 16 "
                "by input \"tokens\"");
}

TEST(BindCallTest, BatchWithoutRowsIsRefused) {
  Tensors inputs = GoodInputs();
  inputs["tokens"] = Zeros(DType::kInt64, {0, 16});

  ExpectRefused(BindCall(Example(), inputs, {}, false), reason::kInvalidInput,
                "input \"tokens\" has shape [0,16]: axis 0 is 0; a batch has "
                "at least 1 row");
}

TEST(BindCallTest, SizeOutsideItsRangeIsRefused) {
  for (const int64_t seq : {1, 513}) {
    Tensors inputs = GoodInputs();
    inputs["tokens"] = Zeros(DType::kInt64, {3, seq});

    ExpectRefused(
        BindCall(Example(), inputs, {}, false), reason::kShapeMismatch,
        absl::StrCat("input \"tokens\" has shape [3,", seq, "]: axis 1 is ",
                     seq, "; model byte-lm@1 takes seq from 2 to 512"));
  }
}

TEST(BindCallTest, SizeWithoutRangeIsAtLeastOne) {
  Json json = ExampleContract();
  json.erase("sizes");
  Tensors inputs = GoodInputs();
  inputs["tokens"] = Zeros(DType::kInt64, {3, 0});

  ExpectRefused(BindCall(Parsed(json), inputs, {}, false),
                reason::kShapeMismatch,
                "input \"tokens\" has shape [3,0]: axis 1 is 0; model "
                "byte-lm@1 takes seq of at least 1");
}

TEST(BindCallTest, RangeOfRowsIsNotThatOfTheWholeBatch) {
  Json json = ExampleContract();
  json["sizes"]["rows"] = {{"min", 1}, {"max", 2}};

  EXPECT_THAT(BindCall(Parsed(json), GoodInputs(), {}, false), IsOk());
}

// The example with shapes of the first input and of the replicated one changed:
// the latter comes before the one that binds what it mentions.
PackageContract WithExpression(const Json& size) {
  Json json = ExampleContract();
  std::swap(json["inputs"][0], json["inputs"][1]);
  json["inputs"][0]["shape"] = {size};
  return Parsed(json);
}

TEST(BindCallTest, ExpressionsAreCheckedWhenAllNamesAreBound) {
  Tensors inputs = GoodInputs();
  inputs["scale"] = Zeros(DType::kFloat32, {31});

  EXPECT_THAT(BindCall(WithExpression("seq*2-1"), inputs, {}, false), IsOk());
  ExpectRefused(BindCall(WithExpression("seq*2"), inputs, {}, false),
                reason::kShapeMismatch,
                "input \"scale\" has shape [31]: axis 0 is 31; model byte-lm@1 "
                "takes 32 (seq*2)");
}

TEST(BindCallTest, ExpressionWithoutValueIsRefused) {
  Tensors inputs = GoodInputs();
  inputs["scale"] = Zeros(DType::kFloat32, {31});

  ExpectRefused(BindCall(WithExpression("seq-20"), inputs, {}, false),
                reason::kShapeMismatch,
                "input \"scale\" has shape [31]: axis 0 is 31; size \"seq-20\" "
                "is -4 with rows=3, seq=16");
}

TEST(BindCallTest, FixedSizesAreCompared) {
  Tensors inputs = GoodInputs();
  inputs["scale"] = Zeros(DType::kFloat32, {7});

  EXPECT_THAT(BindCall(WithExpression(7), inputs, {}, false), IsOk());
  ExpectRefused(BindCall(WithExpression(8), inputs, {}, false),
                reason::kShapeMismatch,
                "input \"scale\" has shape [7]: axis 0 is 7; model byte-lm@1 "
                "takes 8");
}

TEST(CheckMicrobatchRowsTest, RangeOfRowsIsThatOfMicrobatches) {
  Json json = ExampleContract();
  json["sizes"]["rows"] = {{"min", 2}, {"max", 8}};
  const PackageContract contract = Parsed(json);

  EXPECT_THAT(CheckMicrobatchRows(contract, 2, 8), IsOk());
  EXPECT_THAT(CheckMicrobatchRows(contract, 1, 2),
              StatusIs(kInvalid, Eq("a microbatch would have 1 row; model "
                                    "byte-lm@1 takes from 2 to 8")));
  EXPECT_THAT(CheckMicrobatchRows(contract, 8, 9),
              StatusIs(kInvalid, Eq("a microbatch would have 9 rows; model "
                                    "byte-lm@1 takes from 2 to 8")));
  EXPECT_EQ(GetReason(CheckMicrobatchRows(contract, 8, 9)),
            reason::kShapeMismatch);
}

TEST(CheckMicrobatchRowsTest, WithoutARangeAnyNumberWillDo) {
  Json json = ExampleContract();
  json["sizes"].erase("rows");

  EXPECT_THAT(CheckMicrobatchRows(Parsed(json), 1, 1 << 30), IsOk());
}

}  // namespace
}  // namespace pipestage
