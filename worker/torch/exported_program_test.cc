#include "worker/torch/exported_program.h"

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ATen/Context.h"
#include "ATen/Parallel.h"
#include "ATen/ops/full.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/match.h"
#include "base/status_matchers.h"
#include "c10/core/InferenceMode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/torch/testdata/fixtures.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kSeed = 123;  // as in make_fixtures.py

at::Tensor Torch(const HostTensor& tensor) {
  return ToTorch(StageTensor::FromHost(tensor), c10::kCPU);
}

StageWeights WeightsOf(const Fixture& fixture) {
  StageWeights weights;
  for (const auto& [name, tensor] : fixture.weights) {
    weights[name] = Torch(tensor).clone();
  }
  return weights;
}

absl::StatusOr<std::unique_ptr<ExportedProgram>> Load(const Fixture& fixture) {
  ExportedProgram::Options options;
  if (!fixture.runs.empty()) {
    for (const auto& [name, tensor] : fixture.runs[0].keywords) {
      options.keywords.push_back(name);
    }
  }
  return ExportedProgram::Load(fixture.archive, WeightsOf(fixture), options);
}

std::vector<at::Tensor> InputsOf(const FixtureRun& run) {
  std::vector<at::Tensor> inputs;
  for (const HostTensor& input : run.inputs) inputs.push_back(Torch(input));
  for (const auto& [name, input] : run.keywords) inputs.push_back(Torch(input));
  return inputs;
}

// Runs as a stage does; results as they leave it.
absl::StatusOr<std::vector<StageTensor>> RunAsStage(
    StageProgram& program, std::vector<at::Tensor> inputs) {
  const c10::InferenceMode inference_mode;
  auto results = program.Run(inputs);
  if (!results.ok()) return results.status();
  StorageSet taken(&program.state());
  for (const at::Tensor& input : inputs) taken.Add(input);
  std::vector<StageTensor> outputs;
  for (const at::Tensor& result : *results) {
    auto output = Canonicalize(result, taken);
    if (!output.ok()) return output.status();
    outputs.push_back(FromTorch(*output));
  }
  return outputs;
}

void ExpectSameBits(const StageTensor& actual, const HostTensor& expected) {
  EXPECT_EQ(Describe(actual.dtype, actual.shape),
            Describe(expected.dtype, expected.shape));
  ASSERT_EQ(actual.data.size(), expected.data.size());
  if (expected.data.empty()) return;
  EXPECT_EQ(std::memcmp(actual.data.data(), expected.data.data(),
                        expected.data.size()),
            0)
      << "the bytes differ";
}

std::vector<std::string> Names(bool refused) {
  std::vector<std::string> names;
  for (const auto& [name, fixture] : Fixtures()) {
    if (absl::StartsWith(name, "script_")) continue;
    if (fixture.refused.empty() != refused) names.push_back(name);
  }
  return names;
}

std::string TestName(const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}

class ExportedProgramTest : public ::testing::TestWithParam<std::string> {
 protected:
  ExportedProgramTest() { at::set_num_threads(1); }
};

TEST_P(ExportedProgramTest, ComputesWhatPythonDoesBitForBit) {
  const Fixture& fixture = FixtureNamed(GetParam());
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto program, Load(fixture));

  for (size_t r = 0; r < fixture.runs.size(); ++r) {
    SCOPED_TRACE(::testing::Message() << "run " << r);
    const FixtureRun& run = fixture.runs[r];
    at::Generator generator = at::globalContext().defaultGenerator(c10::kCPU);
    generator.set_current_seed(kSeed);
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto outputs,
                                   RunAsStage(*program, InputsOf(run)));

    ASSERT_EQ(outputs.size(), run.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "output " << i);
      ExpectSameBits(outputs[i], run.outputs[i]);
    }
  }
}

TEST_P(ExportedProgramTest, LeavesNoTrace) {
  const Fixture& fixture = FixtureNamed(GetParam());
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto program, Load(fixture));
  at::Generator generator = at::globalContext().defaultGenerator(c10::kCPU);
  const std::vector<at::Tensor> inputs = InputsOf(fixture.runs[0]);
  std::vector<at::Tensor> copies;
  for (const at::Tensor& input : inputs) copies.push_back(input.clone());
  const at::Tensor state = generator.get_state();

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto first,
                                 RunAsStage(*program, inputs));
  const at::Tensor state_after = generator.get_state();
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto second,
                                 RunAsStage(*program, inputs));

  EXPECT_TRUE(state.equal(state_after));
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(inputs[i].equal(copies[i]));
  }
  for (size_t i = 0; i < first.size(); ++i) {
    ExpectSameBits(second[i], {first[i].dtype, first[i].shape, first[i].data});
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ExportedProgramTest,
                         ::testing::ValuesIn(Names(false)), TestName);

class RefusedProgramTest : public ::testing::TestWithParam<std::string> {};

TEST_P(RefusedProgramTest, IsRefusedByName) {
  const Fixture& fixture = FixtureNamed(GetParam());

  EXPECT_THAT(Load(fixture), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr(fixture.refused)));
}

INSTANTIATE_TEST_SUITE_P(Cases, RefusedProgramTest,
                         ::testing::ValuesIn(Names(true)), TestName);

TEST(ExportedProgramErrorsTest, RefusalNamesNodeAndLineOfPython) {
  EXPECT_THAT(
      Load(FixtureNamed("writes_to_an_input")),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("node add_"), HasSubstr("make_fixtures.py:"),
                     HasSubstr("x.add_(1)"))));
}

TEST(ExportedProgramErrorsTest, FailureNamesNodeAndLineOfPython) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto program,
                                 Load(FixtureNamed("transformer_block")));

  const auto outputs = RunAsStage(*program, {at::full({2, 10}, 31, at::kLong)});

  EXPECT_THAT(outputs, StatusIs(absl::StatusCode::kAborted,
                                AllOf(HasSubstr("node embedding"),
                                      HasSubstr("make_fixtures.py:"),
                                      HasSubstr("self.embed(tokens)"),
                                      HasSubstr("index out of range"))));
}

TEST(ExportedProgramErrorsTest, InputsOtherThanTheProgramsAreRefused) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto program,
                                 Load(FixtureNamed("float_sizes")));
  const auto refused = [](absl::string_view what) {
    return StatusIs(absl::StatusCode::kAborted, HasSubstr(std::string(what)));
  };

  EXPECT_THAT(RunAsStage(*program, {}), refused("0 inputs"));
  EXPECT_THAT(RunAsStage(*program, {at::ones({2, 5})}), refused("6 on axis 1"));
  EXPECT_THAT(RunAsStage(*program, {at::ones({2})}), refused("2 axes"));
  EXPECT_THAT(RunAsStage(*program, {at::ones({2, 6}, at::kDouble)}),
              refused("float32"));
  EXPECT_THAT(RunAsStage(*program, {at::ones({4097, 6})}),
              refused("1 to 4096"));
}

TEST(ExportedProgramErrorsTest, MissingOrUnfitWeightIsNamed) {
  const Fixture& fixture = FixtureNamed("linear");
  StageWeights weights = WeightsOf(fixture);
  weights["weight"] = at::zeros({3, 7});
  EXPECT_THAT(
      ExportedProgram::Load(fixture.archive, weights, {}),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("parameter weight is Float [3,7]; the program takes "
                         "Float [3,6]")));

  weights.erase("weight");
  EXPECT_THAT(ExportedProgram::Load(fixture.archive, weights, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("parameter weight is not among")));
}

TEST(ExportedProgramErrorsTest, KeywordsOfAnotherNameAreRefused) {
  const Fixture& fixture = FixtureNamed("keywords");

  EXPECT_THAT(
      ExportedProgram::Load(fixture.archive, {}, {c10::kCPU, {"a", "scale"}}),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("no keyword scale")));
  EXPECT_THAT(
      ExportedProgram::Load(fixture.archive, {}, {}),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("keywords")));
}

TEST(ExportedProgramErrorsTest, TruncatedArchiveIsRefused) {
  const std::string& archive = FixtureNamed("linear").archive;
  for (const size_t size :
       {size_t{0}, size_t{10}, archive.size() / 2, archive.size() - 1}) {
    EXPECT_THAT(ExportedProgram::Load(archive.substr(0, size), {}, {}),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("not a .pt2 archive")));
  }
}

TEST(ExportedProgramConcurrencyTest, ThreadsMayRunProgramsSideBySide) {
  const Fixture& fixture = FixtureNamed("transformer_block");
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      at::set_num_threads(1);
      PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto program, Load(fixture));
      for (int i = 0; i < 20; ++i) {
        const FixtureRun& run = fixture.runs[i % fixture.runs.size()];
        PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto outputs,
                                       RunAsStage(*program, InputsOf(run)));
        ExpectSameBits(outputs[0], run.outputs[0]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace pipestage
