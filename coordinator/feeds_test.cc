#include "coordinator/feeds.h"

#include <cstring>
#include <numeric>

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/compiler.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;

TensorContract ContractOf(const std::string& name, std::optional<int> axis) {
  TensorContract contract;
  contract.name = name;
  contract.dtype = DType::kUint8;
  contract.axis = axis;
  return contract;
}

// "x" into stage 0, "scale" replicated and "offset" on axis 1 for stages 1 and
// 3, target "t"; four stages on two ranks.
PackageContract FourStages() {
  PackageContract contract;
  contract.inputs = {ContractOf("x", 0), ContractOf("scale", std::nullopt),
                     ContractOf("offset", 1)};
  contract.targets = {ContractOf("t", 0)};
  contract.stages.resize(4);
  for (int s = 0; s < 4; ++s) contract.stages[s].index = StageIndex(s);
  contract.stages[0].inputs = {contract.inputs[0]};
  contract.stages[1].keyword_inputs = {"scale", "offset"};
  contract.stages[3].keyword_inputs = {"scale"};
  return contract;
}

HostTensor Bytes(Shape shape) {
  const int64_t size = *NumElements(shape);
  HostTensor tensor{DType::kUint8, shape, Buffer::Allocate(size)};
  for (int64_t i = 0; i < size; ++i) {
    tensor.data.mutable_data()[i] = static_cast<std::byte>(i);
  }
  return tensor;
}

CallInputs InputsOf(int64_t rows, int64_t row_bytes) {
  CallInputs inputs;
  inputs.inputs["x"] = Bytes({rows, row_bytes});
  inputs.inputs["scale"] = Bytes({1});
  inputs.inputs["offset"] = Bytes({2, rows});
  inputs.targets["t"] = Bytes({rows});
  return inputs;
}

// Argument and microbatches of each feed.
std::vector<std::tuple<int, int, int>> Summary(const std::vector<Feed>& feeds) {
  std::vector<std::tuple<int, int, int>> summary;
  for (const Feed& feed : feeds) {
    summary.emplace_back(feed.argument, feed.first_microbatch,
                         feed.num_microbatches);
  }
  return summary;
}

// Two stages on each of two ranks.
std::shared_ptr<const Plan> PlanOf(const Microbatches& microbatches,
                                   const char* schedule = "LoopedBFS") {
  PlanRequest request;
  request.schedule = schedule;
  request.num_ranks = 2;
  request.stages_per_rank = 2;
  request.num_microbatches = microbatches.count();
  return *CompilePlan(request);
}

TEST(FeedsTest, ArgumentsGoToTheRanksThatNeedThemOnce) {
  const auto contract = FourStages();
  const auto microbatches = *Microbatches::Create(5, 3);
  const CallInputs inputs = InputsOf(5, 2);

  const auto feeds =
      PlanFeeds(contract, *PlanOf(microbatches), microbatches, inputs);

  using T = std::tuple<int, int, int>;
  EXPECT_THAT(Summary(feeds[0]), ElementsAre(T(0, 0, 3)));
  EXPECT_THAT(Summary(feeds[1]),
              ElementsAre(T(1, 0, 0), T(2, 0, 3), T(3, 0, 3)));
}

TEST(FeedsTest, LargeArgumentsAreCutIntoWholeMicrobatchesInOrder) {
  const auto contract = FourStages();
  const auto microbatches = *Microbatches::Create(5, 5);
  const CallInputs inputs = InputsOf(5, 100 << 10);

  const auto feeds =
      PlanFeeds(contract, *PlanOf(microbatches), microbatches, inputs);

  using T = std::tuple<int, int, int>;
  EXPECT_THAT(Summary(feeds[0]),
              ElementsAre(T(0, 0, 2), T(0, 2, 2), T(0, 4, 1)));
  EXPECT_EQ(feeds[0][0].size_bytes, 200 << 10);
}

TEST(FeedsTest, MicrobatchLargerThanAMessageIsOneMessage) {
  const auto contract = FourStages();
  const auto microbatches = *Microbatches::Create(2, 2);
  const CallInputs inputs = InputsOf(2, 300 << 10);

  const auto feeds =
      PlanFeeds(contract, *PlanOf(microbatches), microbatches, inputs);

  using T = std::tuple<int, int, int>;
  EXPECT_THAT(Summary(feeds[0]), ElementsAre(T(0, 0, 1), T(0, 1, 1)));
}

// Rank 1 runs stage 1 on all microbatches before it runs stage 3 on the first.
TEST(FeedsTest, WhatIsUsedFirstIsFedFirst) {
  auto contract = FourStages();
  contract.stages[3].keyword_inputs.clear();
  const auto microbatches = *Microbatches::Create(3, 3);
  CallInputs inputs = InputsOf(3, 1);
  inputs.inputs["offset"] = Bytes({200 << 10, 3});
  inputs.targets["t"] = Bytes({3, 200 << 10});

  const auto feeds =
      PlanFeeds(contract, *PlanOf(microbatches), microbatches, inputs);

  using T = std::tuple<int, int, int>;
  EXPECT_THAT(Summary(feeds[1]),
              ElementsAre(T(1, 0, 0), T(2, 0, 1), T(2, 1, 1), T(2, 2, 1),
                          T(3, 0, 1), T(3, 1, 1), T(3, 2, 1)));
}

TEST(FeedsTest, RowsAlongAxis0AreNotCopied) {
  const auto contract = FourStages();
  const auto microbatches = *Microbatches::Create(5, 5);
  const CallInputs inputs = InputsOf(5, 100 << 10);
  const auto feeds =
      PlanFeeds(contract, *PlanOf(microbatches), microbatches, inputs);

  const auto message = MakeFeedMessage(feeds[0][1], microbatches);

  ASSERT_THAT(message, IsOk());
  EXPECT_EQ(message->data.data(),
            inputs.inputs.at("x").data.data() + 2 * (100 << 10));
  EXPECT_EQ(message->data.size(), 200 << 10);
  EXPECT_EQ(message->header.first_microbatch(), 2);
  EXPECT_EQ(message->header.num_microbatches(), 2);
}

TEST(FeedsTest, PartsAlongAnotherAxisFollowEachOtherContiguously) {
  const auto contract = FourStages();
  const auto microbatches = *Microbatches::Create(3, 2);  // 2 rows, then 1
  const CallInputs inputs = InputsOf(3, 1);  // offset: 0 1 2 / 3 4 5
  const auto feeds =
      PlanFeeds(contract, *PlanOf(microbatches), microbatches, inputs);

  const auto message = MakeFeedMessage(feeds[1][1], microbatches);

  ASSERT_THAT(message, IsOk());
  const auto* bytes = reinterpret_cast<const char*>(message->data.data());
  EXPECT_THAT(std::vector<int>(bytes, bytes + message->data.size()),
              ElementsAre(0, 1, 3, 4, 2, 5));
}

TEST(FeedsTest, InputOfFirstAndAnotherStageGoesToBothRanks) {
  auto contract = FourStages();
  contract.stages[1].keyword_inputs.push_back("x");
  contract.stages[2].keyword_inputs.push_back("x");  // on rank 0 again
  const auto microbatches = *Microbatches::Create(2, 1);
  const CallInputs inputs = InputsOf(2, 1);

  const auto feeds =
      PlanFeeds(contract, *PlanOf(microbatches), microbatches, inputs);

  EXPECT_EQ(feeds[0].size(), 1);
  EXPECT_EQ(feeds[1].size(), 4);
}

}  // namespace
}  // namespace pipestage
