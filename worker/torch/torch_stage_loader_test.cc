#include "worker/torch/torch_stage_loader.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/sha256.h"
#include "base/status_matchers.h"
#include "c10/core/InferenceMode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensor/safetensors.h"
#include "worker/torch/module_registry.h"
#include "worker/torch/testdata/fixtures.h"
#include "worker/torch/torch_device.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

namespace fs = std::filesystem;

constexpr auto kBroken = absl::StatusCode::kFailedPrecondition;

// A module whose Forward does what the test wants.
std::function<void()>& OnForward() {
  static auto* const on_forward = new std::function<void()>();
  return *on_forward;
}

class Probe : public TorchModule {
 public:
  absl::StatusOr<std::vector<at::Tensor>> Forward(
      absl::Span<const at::Tensor> inputs) override {
    OnForward()();
    return std::vector<at::Tensor>(inputs.begin(), inputs.end());
  }
};

absl::StatusOr<std::unique_ptr<TorchModule>> MakeProbe(
    const nlohmann::json& params, const StageWeights& weights) {
  return std::make_unique<Probe>();
}

PIPESTAGE_REGISTER_MODULE("probe", MakeProbe);

Json Tensor(const std::string& name, const std::string& dtype, Json shape) {
  return {{"name", name}, {"dtype", dtype}, {"shape", shape}, {"axis", 0}};
}

// A model of one stage, [rows, 6] -> [rows, 3], which tests change and write.
class TorchStageLoaderTest : public ::testing::Test {
 protected:
  TorchStageLoaderTest()
      : repository_(
            fs::path(testing::TempDir()) /
            testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(repository_);
    SetStage({{"kind", "export"}, {"file", "stages/0.eval.pt2"}},
             Tensor("y", "float32", {"rows", 3}));
    stage()["weights"] = "weights/0.safetensors";
    files_ = {{"stages/0.eval.pt2", linear_.archive},
              {"weights/0.safetensors", SerializeSafetensors(linear_.weights)}};
  }

  void SetStage(Json program, Json output) {
    const Json input = Tensor("x", "float32", {"rows", 6});
    json_ = {{"format", "pipestage.pipeline/1"},
             {"name", "linear"},
             {"version", "1"},
             {"inputs", {input}},
             {"outputs", {output}},
             {"stages",
              {{{"program", program},
                {"inputs", {input}},
                {"keyword_inputs", Json::array()},
                {"outputs", {output}}}}}};
    files_.clear();
  }
  // The same for a module, which returns its input.
  void SetModule(const std::string& name, Json params = Json::object()) {
    SetStage({{"kind", "module"}, {"name", name}, {"params", params}},
             Tensor("y", "float32", {"rows", 6}));
  }
  Json& stage() { return json_["stages"][0]; }

  std::shared_ptr<const ModelPackage> Package() {
    const fs::path directory = repository_ / "linear" / "1";
    json_["files"] = Json::object();
    for (const auto& [path, bytes] : files_) {
      json_["files"][path] = {{"sha256", Sha256Hex(bytes)},
                              {"bytes", bytes.size()}};
      Write(directory / path, bytes);
    }
    Write(directory / "pipeline.json", json_.dump());
    const auto package = ModelPackage::Open(repository_, "linear", "1");
    EXPECT_THAT(package, IsOk());
    return *package;
  }

  absl::StatusOr<std::unique_ptr<Stage>> LoadStage(
      bool allow_torchscript = false) {
    TorchStageLoader::Options options;
    options.allow_torchscript = allow_torchscript;
    loader_ = TorchStageLoader::Create(options).value();
    return loader_->LoadStage(*Package(), StageIndex(0));
  }

  static void Write(const fs::path& path, const std::string& bytes) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }

  const Fixture& linear_ = FixtureNamed("linear");
  const fs::path repository_;
  Json json_;
  std::map<std::string, std::string> files_;
  std::unique_ptr<TorchStageLoader> loader_;
};

StageTensor Host(const HostTensor& tensor) {
  return StageTensor::FromHost(tensor);
}

void ExpectSame(const StageTensor& actual, const HostTensor& expected) {
  EXPECT_EQ(Describe(actual.dtype, actual.shape),
            Describe(expected.dtype, expected.shape));
  ASSERT_EQ(actual.data.size(), expected.data.size());
  EXPECT_TRUE(expected.data.empty() ||
              std::memcmp(actual.data.data(), expected.data.data(),
                          expected.data.size()) == 0);
}

TEST_F(TorchStageLoaderTest, AnExportedStageComputesWhatPythonDoes) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto stage, LoadStage());

  for (const FixtureRun& run : linear_.runs) {
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto outputs,
                                   stage->Forward({Host(run.inputs[0])}));

    ASSERT_EQ(outputs.size(), 1);
    ExpectSame(outputs[0], run.outputs[0]);
  }
  EXPECT_EQ(stage->weight_bytes(), (18 + 3) * sizeof(float));
}

TEST_F(TorchStageLoaderTest, ForwardIsInInferenceModeAndSharesNoBytes) {
  SetModule("probe");
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto stage, LoadStage());
  bool inference_mode = false;
  OnForward() = [&] { inference_mode = c10::InferenceMode::is_enabled(); };
  const StageTensor x = Host(linear_.runs[0].inputs[0]);

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto outputs, stage->Forward({x}));

  EXPECT_TRUE(inference_mode);
  EXPECT_FALSE(c10::InferenceMode::is_enabled());
  EXPECT_NE(outputs[0].data.data(), x.data.data());
  ExpectSame(outputs[0], linear_.runs[0].inputs[0]);
}

TEST_F(TorchStageLoaderTest, WhatAModuleThrowsIsAborted) {
  SetModule("probe");
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto stage, LoadStage());
  OnForward() = [] { throw std::runtime_error("boom"); };

  EXPECT_THAT(
      stage->Forward({Host(linear_.runs[0].inputs[0])}),
      StatusIs(absl::StatusCode::kAborted, HasSubstr("module probe: boom")));
}

TEST_F(TorchStageLoaderTest, BuiltinModulesComputeTheirClosedForms) {
  const HostTensor x{DType::kFloat64, {2, 1}, Buffer::Allocate(16)};
  Buffer bytes = x.data;
  reinterpret_cast<double*>(bytes.mutable_data())[0] = 1;
  reinterpret_cast<double*>(bytes.mutable_data())[1] = -2;
  const auto run = [&](const std::string& name, Json params) {
    SetModule(name, params);
    auto stage = LoadStage();
    EXPECT_THAT(stage, IsOk());
    const auto outputs = (*stage)->Forward({Host(x)});
    EXPECT_THAT(outputs, IsOk());
    EXPECT_EQ((*outputs)[0].dtype, DType::kFloat64);
    const auto* const y =
        reinterpret_cast<const double*>((*outputs)[0].data.data());
    return std::make_pair(y[0], y[1]);
  };

  EXPECT_EQ(run("identity", Json::object()), std::make_pair(1.0, -2.0));
  EXPECT_EQ(run("digit", {{"s", 3}}), std::make_pair(13.0, -17.0));
  EXPECT_EQ(run("affine", {{"scale", 0.5}, {"bias", 2}}),
            std::make_pair(2.5, 1.0));
}

TEST_F(TorchStageLoaderTest, ModulesThatAreNotThereOrMisusedAreRefused) {
  SetModule("sleepy");
  EXPECT_THAT(LoadStage(),
              StatusIs(kBroken, AllOf(HasSubstr("linear@1"),
                                      HasSubstr("no module \"sleepy\""),
                                      HasSubstr("affine, digit, identity"))));

  SetModule("affine", {{"bais", 2}});
  EXPECT_THAT(LoadStage(), StatusIs(kBroken, HasSubstr("\"bais\"")));
  SetModule("affine", {{"bias", "2"}});
  EXPECT_THAT(LoadStage(), StatusIs(kBroken, HasSubstr("no number")));
}

TEST_F(TorchStageLoaderTest, AProgramOtherThanTheContractsIsRefused) {
  const auto with_output = [&](Json output) {
    json_["outputs"] = {output};
    stage()["outputs"] = {output};
    return LoadStage();
  };
  const auto refused = [](const std::string& what) {
    return StatusIs(kBroken, AllOf(HasSubstr("linear@1: stages/0.eval.pt2"),
                                   HasSubstr(what)));
  };

  const auto wrong_dtype = with_output(Tensor("y", "float64", {"rows", 3}));
  EXPECT_THAT(wrong_dtype, refused("output y is float64"));
  EXPECT_EQ(GetReason(wrong_dtype.status()), reason::kModelBroken);
  EXPECT_THAT(
      with_output(Tensor("y", "float32", {"rows", 4})),
      refused("axis 1 of output y is 4 in pipeline.json, but always 3"));
  EXPECT_THAT(with_output(Tensor("y", "float32", {"rows"})), refused("axes"));
}

TEST_F(TorchStageLoaderTest, ASizeThatIsFixedInTheProgramMayNotVary) {
  const Json input = Tensor("x", "float32", {"rows", "width"});
  json_["inputs"] = {input};
  stage()["inputs"] = {input};

  EXPECT_THAT(LoadStage(),
              StatusIs(kBroken, HasSubstr("axis 1 of input x is width")));

  json_["sizes"] = {{"width", {{"min", 6}, {"max", 6}}}};
  EXPECT_THAT(LoadStage(), IsOk());
}

TEST_F(TorchStageLoaderTest, WeightsThatAreMissingOrBrokenAreNamed) {
  stage().erase("weights");
  files_.erase("weights/0.safetensors");
  EXPECT_THAT(LoadStage(),
              StatusIs(kBroken, HasSubstr("parameter weight is not among")));

  stage()["weights"] = "weights/0.safetensors";
  files_["weights/0.safetensors"] = "nothing of the kind";
  EXPECT_THAT(LoadStage(),
              StatusIs(kBroken, HasSubstr("linear@1: weights/0.safetensors")));
}

TEST_F(TorchStageLoaderTest, AFileThatChangedIsRefused) {
  const auto package = Package();
  Write(repository_ / "linear" / "1" / "stages/0.eval.pt2", "changed");
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto loader, TorchStageLoader::Create({}));

  const auto stage = loader->LoadStage(*package, StageIndex(0));

  EXPECT_THAT(stage, StatusIs(kBroken, HasSubstr("stages/0.eval.pt2")));
  EXPECT_EQ(GetReason(stage.status()), reason::kModelBroken);
}

TEST_F(TorchStageLoaderTest, TorchScriptIsLoadedOnlyWhereItIsAllowed) {
  const Fixture& script = FixtureNamed("script_counting");
  SetStage({{"kind", "torchscript"}, {"file", "stages/0.pt"}},
           Tensor("y", "float32", {"rows", 3}));
  files_["stages/0.pt"] = script.archive;
  EXPECT_THAT(LoadStage(),
              StatusIs(kBroken, AllOf(HasSubstr("stages/0.pt"),
                                      HasSubstr("--allow-torchscript"))));

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto stage, LoadStage(true));

  // In evaluation mode, and its buffer does not count calls.
  for (int call = 0; call < 4; ++call) {
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(
        const auto outputs, stage->Forward({Host(script.runs[0].inputs[0])}));
    ASSERT_EQ(outputs.size(), 2);
    ExpectSame(outputs[0], script.runs[0].outputs[0]);
    ExpectSame(outputs[1], script.runs[0].outputs[1]);
  }
}

TEST_F(TorchStageLoaderTest, AnArchiveThatIsNoTorchScriptIsRefused) {
  SetStage({{"kind", "torchscript"}, {"file", "stages/0.pt"}},
           Tensor("y", "float32", {"rows", 3}));
  files_["stages/0.pt"] = "no archive";

  EXPECT_THAT(LoadStage(true),
              StatusIs(kBroken, HasSubstr("not a TorchScript archive")));
}

TEST_F(TorchStageLoaderTest, ALossProgramGivesLossesAndWeights) {
  const Fixture& fixture = FixtureNamed("cross_entropy");
  const Json logits = Tensor("x", "float32", {"rows", 5, 11});
  SetModule("identity");
  json_["inputs"] = {logits};
  json_["outputs"] = {Tensor("y", "float32", {"rows", 5, 11})};
  stage()["inputs"] = json_["inputs"];
  stage()["outputs"] = json_["outputs"];
  json_["targets"] = {Tensor("t", "int64", {"rows", 5})};
  json_["loss"] = {{"kind", "program"},
                   {"program", {{"kind", "export"}, {"file", "loss/loss.pt2"}}},
                   {"inputs", {"y", "t"}}};
  files_["loss/loss.pt2"] = fixture.archive;
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto loader, TorchStageLoader::Create({}));
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto loss, loader->LoadLoss(*Package()));
  const FixtureRun& run = fixture.runs[0];

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const auto value,
      loss->Compute({Host(run.inputs[0])}, {Host(run.inputs[1])}, 4, true));

  EXPECT_EQ(value.total.weight, 17);
  EXPECT_THAT(value.row_weights, ::testing::ElementsAre(5, 2, 5, 5));
  ExactSum expected;
  for (int i = 0; i < 20; ++i) {
    expected.Add(reinterpret_cast<const float*>(run.outputs[0].data.data())[i]);
  }
  EXPECT_EQ(value.total.sum.Round(), expected.Round());
}

TEST_F(TorchStageLoaderTest, APackageWithoutALossHasNone) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto loader, TorchStageLoader::Create({}));

  EXPECT_THAT(loader->LoadLoss(*Package()),
              StatusIs(kBroken, HasSubstr("has no loss")));
}

TEST(TorchStageLoaderOptionsTest, WhatCannotBeIsRefused) {
  EXPECT_THAT(TorchStageLoader::Create({"tpu"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tpu")));
  EXPECT_THAT(TorchStageLoader::Create({"cuda:x"}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(TorchStageLoader::Create({"cpu", 0}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(AutomaticDeviceTest, WorkersOfAHostGetAGpuEach) {
  EXPECT_EQ(AutomaticDevice(8, 0, 8), "cuda:0");
  EXPECT_EQ(AutomaticDevice(8, 7, 8), "cuda:7");
  EXPECT_EQ(AutomaticDevice(8, 13, 1), "cuda:5");  // the second host of two
  EXPECT_EQ(AutomaticDevice(1, 3, 1), "cuda:0");   // one GPU in each pod
  EXPECT_EQ(AutomaticDevice(2, -1, 1), "cuda:0");  // any rank
}

TEST(AutomaticDeviceTest, WithoutAGpuForEachWorkerAllUseTheCpu) {
  EXPECT_EQ(AutomaticDevice(0, 1, 1), "cpu");
  EXPECT_EQ(AutomaticDevice(1, 0, 2), "cpu");
  EXPECT_EQ(AutomaticDevice(1, 1, 2), "cpu");
}

TEST(TorchStageLoaderOptionsTest, ACudaDeviceThatIsNotThereIsRefused) {
  EXPECT_THAT(TorchStageLoader::Create({"cuda:99"}),
              StatusIs(kBroken, HasSubstr("CUDA")));
}

TEST(TorchStageLoaderOptionsTest, OnTheHostBuffersAreAlignedAndStayThere) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto loader, TorchStageLoader::Create({}));
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const Buffer buffer, loader->Allocate(100));
  const StageTensor tensor{DType::kUint8, {100}, buffer, DeviceKind::kHost};

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const HostTensor host, loader->ToHost(tensor));

  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0);
  EXPECT_EQ(host.data.data(), buffer.data());
  EXPECT_EQ(loader->device(), DeviceKind::kHost);
  EXPECT_EQ(loader->DescribeDevice(), "cpu");
}

}  // namespace
}  // namespace pipestage
