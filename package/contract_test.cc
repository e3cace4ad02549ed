#include "package/contract.h"

#include <string>

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "package/testing/example_contract.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

using Json = nlohmann::json;

absl::StatusOr<PackageContract> Parse(const Json& json) {
  return ParseContract(json.dump());
}

TEST(ContractTest, ExampleOfTheFormatIsReadWhole) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const PackageContract contract,
                                 Parse(ExampleContract()));

  EXPECT_EQ(contract.name, "byte-lm");
  EXPECT_EQ(contract.version, "1");
  EXPECT_EQ(contract.description, "free text");
  EXPECT_EQ(contract.default_num_microbatches, 8);
  EXPECT_EQ(contract.default_schedule, "GPipe");
  EXPECT_EQ(contract.sizes.at("seq").min, 2);
  EXPECT_EQ(contract.sizes.at("seq").max, 512);
  EXPECT_EQ(contract.InputIndex("scale"), 1);
  EXPECT_EQ(contract.inputs[0].dtype, DType::kInt64);
  EXPECT_EQ(contract.inputs[0].shape[1].name(), "seq");
  EXPECT_EQ(contract.inputs[0].axis, 0);
  EXPECT_EQ(contract.inputs[1].axis, std::nullopt);
  EXPECT_EQ(contract.TargetIndex("targets"), 0);
  EXPECT_EQ(contract.TargetIndex("logits"), std::nullopt);
  EXPECT_EQ(contract.OutputIndex("logits"), 0);
  EXPECT_EQ(contract.outputs[0].shape[2].constant(), 256);
  EXPECT_EQ(contract.files.at("stages/0.eval.pt2").bytes, 12345);
  EXPECT_THAT(contract.files.at("stages/0.eval.pt2").sha256,
              StartsWith("00112233"));
}

TEST(ContractTest, StagesOfTheExampleAreReadWhole) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const PackageContract contract,
                                 Parse(ExampleContract()));

  ASSERT_EQ(contract.stages.size(), 2);
  const StageContract& first = contract.stages[0];
  EXPECT_EQ(first.index, StageIndex(0));
  EXPECT_EQ(first.program.kind, ProgramRef::Kind::kExport);
  EXPECT_EQ(first.program.file, "stages/0.eval.pt2");
  ASSERT_TRUE(first.step_program.has_value());
  EXPECT_EQ(first.step_program->file, "stages/0.step.pt2");
  EXPECT_EQ(first.weights_file, "weights/0.safetensors");
  EXPECT_THAT(first.keyword_inputs, ElementsAre("scale"));
  EXPECT_EQ(first.outputs[0].name, "hidden");
  const StageContract& second = contract.stages[1];
  EXPECT_EQ(second.index, StageIndex(1));
  EXPECT_EQ(second.program.kind, ProgramRef::Kind::kModule);
  EXPECT_EQ(second.program.module, "affine");
  EXPECT_EQ(second.program.params_json, R"({"bias":2.0})");
  EXPECT_FALSE(second.step_program.has_value());
  EXPECT_EQ(second.weights_file, "");
}

TEST(ContractTest, EveryKindOfLossIsRead) {
  Json json = ExampleContract();
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const PackageContract cross_entropy,
                                 Parse(json));
  EXPECT_EQ(cross_entropy.loss->kind, LossContract::Kind::kCrossEntropy);
  EXPECT_EQ(cross_entropy.loss->prediction, "logits");
  EXPECT_EQ(cross_entropy.loss->target, "targets");
  EXPECT_EQ(cross_entropy.loss->ignore_index, -1);

  json["loss"] = {{"kind", "program"},
                  {"program", {{"kind", "module"}, {"name", "my_loss"}}},
                  {"weights", "weights/0.safetensors"},
                  {"inputs", {"logits", "targets"}}};
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const PackageContract program, Parse(json));
  EXPECT_EQ(program.loss->kind, LossContract::Kind::kProgram);
  EXPECT_EQ(program.loss->program.module, "my_loss");
  EXPECT_EQ(program.loss->program.params_json, "{}");
  EXPECT_EQ(program.loss->weights_file, "weights/0.safetensors");
  EXPECT_THAT(program.loss->inputs, ElementsAre("logits", "targets"));

  json["loss"] = {{"kind", "mean_squared_error"},
                  {"prediction", "logits"},
                  {"target", "targets"}};
  json["targets"][0]["shape"] = {"rows", "seq", 256};
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const PackageContract squared, Parse(json));
  EXPECT_EQ(squared.loss->kind, LossContract::Kind::kMeanSquaredError);
}

TEST(ContractTest, WhatIsOptionalMayBeLeftOut) {
  Json json = ExampleContract();
  for (const char* key :
       {"description", "created_by", "defaults", "sizes", "targets", "loss"}) {
    json.erase(key);
  }
  json["stages"][0].erase("step_program");
  json["stages"][0].erase("weights");
  json["stages"][1].erase("keyword_inputs");

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const PackageContract contract, Parse(json));

  EXPECT_EQ(contract.default_num_microbatches, 4);
  EXPECT_EQ(contract.default_schedule, "1F1B");
  EXPECT_THAT(contract.targets, IsEmpty());
  EXPECT_THAT(contract.sizes, IsEmpty());
  EXPECT_FALSE(contract.loss.has_value());
  EXPECT_THAT(contract.stages[1].keyword_inputs, IsEmpty());
}

TEST(ContractTest, DefaultsAndSizesMayBeGivenInPart) {
  Json json = ExampleContract();
  json["defaults"].erase("schedule");
  json["sizes"] = {{"seq", {{"max", 64}}}, {"rows", Json::object()}};
  json["loss"].erase("ignore_index");

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const PackageContract contract, Parse(json));

  EXPECT_EQ(contract.default_num_microbatches, 8);
  EXPECT_EQ(contract.default_schedule, "1F1B");
  EXPECT_EQ(contract.sizes.at("seq").min, 1);
  EXPECT_EQ(contract.sizes.at("seq").max, 64);
  EXPECT_EQ(contract.sizes.at("rows").max, INT64_MAX);
  EXPECT_EQ(contract.loss->ignore_index, -100);
}

TEST(ContractTest, TorchScriptProgramIsAFile) {
  Json json = ExampleContract();
  json["stages"][0]["program"]["kind"] = "torchscript";

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const PackageContract contract, Parse(json));

  EXPECT_EQ(contract.stages[0].program.kind, ProgramRef::Kind::kTorchScript);
  EXPECT_EQ(contract.stages[0].program.file, "stages/0.eval.pt2");
}

TEST(ContractTest, OutputSizeMayBeDataDependent) {
  Json json = ExampleContract();
  json.erase("loss");
  json["outputs"][0]["shape"] = {"?", "seq", 256};
  json["stages"][1]["outputs"][0]["shape"] = {"?", "seq", 256};

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const PackageContract contract, Parse(json));

  EXPECT_TRUE(contract.outputs[0].shape[0].is_data_dependent());
}

TEST(ContractTest, BoundaryNamesMayDifferAndItsAxisMayBeOpen) {
  Json json = ExampleContract();
  json["stages"][1]["inputs"][0]["name"] = "x";
  json["stages"][1]["inputs"][0]["axis"] = nullptr;
  json["stages"][0]["outputs"][0]["axis"] = nullptr;
  json["stages"][1]["outputs"][0]["axis"] = nullptr;

  EXPECT_THAT(Parse(json), IsOk());
}

TEST(ContractTest, TextThatIsNoStrictJsonIsRefused) {
  EXPECT_THAT(ParseContract("{"), StatusIs(kInvalid, HasSubstr("byte 2")));
  EXPECT_THAT(ParseContract("[]"),
              StatusIs(kInvalid, HasSubstr("expected an object")));
  EXPECT_THAT(ParseContract(R"({"format":"a","format":"b"})"),
              StatusIs(kInvalid, HasSubstr("\"format\" is there twice")));
  EXPECT_THAT(ParseContract(std::string(1000, '[')),
              StatusIs(kInvalid, HasSubstr("deep")));
}

TEST(ContractTest, FormatOfAnotherVersionIsNamedBeforeItsUnknownKeys) {
  Json json = ExampleContract();
  json["format"] = "pipestage.pipeline/2";
  json["experts"] = 8;

  EXPECT_THAT(Parse(json), StatusIs(kInvalid,
                                    "format: is \"pipestage.pipeline/2\"; this "
                                    "build reads \"pipestage.pipeline/1\""));
}

TEST(ResolveShapeTest, SizesAreFilledIn) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const PackageContract contract,
                                 Parse(ExampleContract()));
  Sizes sizes;
  sizes.Set("rows", 3);
  EXPECT_THAT(
      ResolveShape(contract.outputs[0], sizes),
      StatusIs(kInvalid, StartsWith("tensor \"logits\": size \"seq\"")));

  sizes.Set("seq", 16);

  EXPECT_THAT(ResolveShape(contract.outputs[0], sizes),
              IsOkAndHolds(ElementsAre(3, 16, 256)));
  EXPECT_THAT(ResolveShape(contract.inputs[1], sizes), IsOkAndHolds(IsEmpty()));
}

}  // namespace
}  // namespace pipestage
