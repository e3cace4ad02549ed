#include "package/boundary_shapes.h"

#include <utility>

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "package/testing/example_contract.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

PackageContract Parsed(const nlohmann::json& json) {
  absl::StatusOr<PackageContract> contract = ParseContract(json.dump());
  EXPECT_THAT(contract, IsOk());
  return contract.ok() ? *std::move(contract) : PackageContract();
}

Sizes SeqOf(int64_t seq) {
  Sizes sizes;
  sizes.Set("seq", seq);
  return sizes;
}

TEST(BoundaryShapesTest, InputsArePositionalThenKeyword) {
  const PackageContract contract = Parsed(ExampleContract());

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const StageShapes shapes,
      ResolveStageShapes(contract, StageIndex(0), SeqOf(16), /*rows=*/3));

  EXPECT_THAT(shapes.inputs, ElementsAre(ElementsAre(3, 16), IsEmpty()));
  EXPECT_THAT(shapes.outputs, ElementsAre(ElementsAre(3, 16, 64)));
}

TEST(BoundaryShapesTest, RowsAreThoseOfTheMicrobatch) {
  const PackageContract contract = Parsed(ExampleContract());
  Sizes sizes = SeqOf(16);
  sizes.Set(kRowsName, 100);

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const StageShapes shapes,
      ResolveStageShapes(contract, StageIndex(1), sizes, /*rows=*/2));

  EXPECT_THAT(shapes.inputs, ElementsAre(ElementsAre(2, 16, 64)));
  EXPECT_THAT(shapes.outputs, ElementsAre(ElementsAre(2, 16, 256)));
}

TEST(BoundaryShapesTest, DataDependentSizesStayOpen) {
  nlohmann::json json = ExampleContract();
  json.erase("loss");
  json["outputs"][0]["shape"] = {"?", "seq//2", 256};
  json["stages"][1]["outputs"][0]["shape"] = {"?", "seq//2", 256};

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const StageShapes shapes,
      ResolveStageShapes(Parsed(json), StageIndex(1), SeqOf(17), 3));

  EXPECT_THAT(shapes.outputs,
              ElementsAre(ElementsAre(kDataDependentSize, 8, 256)));
}

TEST(BoundaryShapesTest, SizeWithoutValueNamesStageAndTensor) {
  const PackageContract contract = Parsed(ExampleContract());

  EXPECT_THAT(ResolveStageShapes(contract, StageIndex(1), Sizes(), 3),
              StatusIs(kInvalid, HasSubstr("stage 1 input \"hidden\": size "
                                           "\"seq\" with rows=3: no value")));
}

TEST(BoundaryShapesTest, StageThatDoesNotExistIsRefused) {
  const PackageContract contract = Parsed(ExampleContract());

  for (const int stage : {-1, 2}) {
    EXPECT_THAT(ResolveStageShapes(contract, StageIndex(stage), SeqOf(4), 3),
                StatusIs(kInvalid, HasSubstr("the model has 2")));
  }
}

}  // namespace
}  // namespace pipestage
