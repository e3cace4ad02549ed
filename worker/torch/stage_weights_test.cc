#include "worker/torch/stage_weights.h"

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

// A safetensors file with this header and these floats.
std::shared_ptr<const MappedFile> File(const std::string& header,
                                       const std::vector<float>& values) {
  const std::string path =
      std::string(testing::TempDir()) + "/" +
      testing::UnitTest::GetInstance()->current_test_info()->name();
  const uint64_t size = header.size();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(&size), sizeof(size))
      .write(header.data(), header.size())
      .write(reinterpret_cast<const char*>(values.data()),
             values.size() * sizeof(float));
  return MappedFile::Open(path).value();
}

constexpr char kTied[] = R"({
  "__metadata__": {"alias:head.weight": "embed.weight", "format": "pt"},
  "bias": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
  "embed.weight": {"dtype": "F32", "shape": [2, 1], "data_offsets": [4, 12]}})";

TEST(StageWeightsTest, TiedNamesShareATensorThatIsCountedOnce) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const StageWeights weights,
      LoadWeights(File(kTied, {1, 2, 3}), c10::kCPU));

  ASSERT_EQ(weights.size(), 3);
  EXPECT_TRUE(weights.at("head.weight").is_same(weights.at("embed.weight")));
  EXPECT_EQ(weights.at("embed.weight")[1].item<float>(), 3);
  EXPECT_EQ(WeightBytes(weights), 12);
}

TEST(StageWeightsTest, WeightsStandOnTheirOwnAndAreAligned) {
  auto file = File(kTied, {1, 2, 3});

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const StageWeights weights,
                                 LoadWeights(file, c10::kCPU));

  EXPECT_EQ(file.use_count(), 1);
  for (const auto& [name, tensor] : weights) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 64, 0);
  }
}

TEST(StageWeightsTest, WhatIsWrongWithAFileIsSaid) {
  EXPECT_THAT(LoadWeights(File(kTied, {1, 2}), c10::kCPU),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(
      LoadWeights(File(R"({"__metadata__": {"alias:a": "b"}})", {}), c10::kCPU),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("a is an alias of \"b\"")));
  EXPECT_THAT(
      LoadWeights(File(R"({"__metadata__": {"alias:b": "b"},
        "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
                       {1}),
                  c10::kCPU),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("both")));
}

}  // namespace
}  // namespace pipestage
