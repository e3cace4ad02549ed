// Evals through the real services and links, executed by FakeWorkers.

#include <cmath>
#include <thread>

#include "absl/strings/str_cat.h"
#include "coordinator/testing/test_cluster.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TestCluster::Options ClusterOf(int num_workers, int num_stages,
                               bool with_loss) {
  TestCluster::Options options;
  options.num_workers = num_workers;
  TestModel model;
  model.num_stages = num_stages;
  model.with_loss = with_loss;
  options.models = {model};
  return options;
}

v1::EvalRequest WithTargets(v1::EvalRequest request, int num_stages,
                            double difference) {
  std::vector<double> targets = ValuesOf(request.inputs().at("x"));
  for (double& t : targets) t = DigitsOf(t, num_stages) - difference;
  const int64_t rows = static_cast<int64_t>(targets.size());
  (*request.mutable_targets())["t"] = Float64Tensor({rows, 1}, targets);
  return request;
}

class GridTest : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(GridTest, EveryBatchAndMicrobatchCountIsExact) {
  const auto [num_workers, stages_per_worker] = GetParam();
  const int num_stages = num_workers * stages_per_worker;
  TestCluster cluster(ClusterOf(num_workers, num_stages, /*with_loss=*/true));

  for (int b = 1; b <= 9; ++b) {
    for (int m = 1; m <= 8; ++m) {
      SCOPED_TRACE(absl::StrCat("B=", b, " M=", m));
      const auto request =
          WithTargets(DigitsRequest(b, m), num_stages, /*difference=*/2);

      const auto response = cluster.Eval(request);

      ASSERT_TRUE(response.ok()) << response.status();
      const int used = std::min(b, m);
      EXPECT_TRUE(IsExact(request, *response, num_stages));
      EXPECT_EQ(response->loss().sum(), 4.0 * b);
      EXPECT_EQ(response->loss().weight(), b);
      EXPECT_EQ(response->loss().mean(), 4.0);
      EXPECT_EQ(response->ran().num_microbatches(), used);
      EXPECT_EQ(response->ran().workers(), num_workers);
      EXPECT_EQ(response->ran().stages_per_worker(), stages_per_worker);
      ASSERT_EQ(response->microbatches_size(), used);
      int64_t first_row = 0;
      for (int i = 0; i < used; ++i) {
        const v1::MicrobatchLoss& loss = response->microbatches(i);
        EXPECT_EQ(loss.microbatch(), i);
        EXPECT_EQ(loss.first_row(), first_row);
        EXPECT_EQ(loss.rows(), b / used + (i < b % used));
        EXPECT_EQ(loss.loss().sum(), 4.0 * loss.rows());
        first_row += loss.rows();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pipelines, GridTest,
                         ::testing::Values(std::pair(1, 1), std::pair(1, 2),
                                           std::pair(2, 1), std::pair(2, 2),
                                           std::pair(3, 1), std::pair(3, 2)));

TEST(CoordinatorTest, OutputsStayAwayUnlessAskedFor) {
  TestCluster cluster;
  auto request = DigitsRequest(5, 2);
  request.mutable_options()->set_return_outputs(false);

  const auto response = cluster.Eval(request);

  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->outputs().empty());
  EXPECT_FALSE(response->has_loss());
}

TEST(CoordinatorTest, KeywordsAndOtherAxesReachTheirStage) {
  TestCluster::Options options;
  TestModel model;
  model.with_keywords = true;
  options.models = {model};
  TestCluster cluster(options);
  auto request = DigitsRequest(5, 3);
  (*request.mutable_inputs())["scale"] = Float64Tensor({}, {7});
  (*request.mutable_inputs())["offset"] =
      Float64Tensor({2, 5}, {-1, -1, -1, -1, -1, 0, 100, 200, 300, 400});

  const auto response = cluster.Eval(request);

  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(ValuesOf(response->outputs().at("y")),
              ElementsAre(7 * 12, 7 * 112 + 100, 7 * 212 + 200, 7 * 312 + 300,
                          7 * 412 + 400));
}

TEST(CoordinatorTest, RowLossesComeInInputOrder) {
  TestCluster cluster(ClusterOf(2, 2, /*with_loss=*/true));
  auto request = DigitsRequest(5, 3);
  (*request.mutable_targets())["t"] =
      Float64Tensor({5, 1}, {12 - 1, 112 - 2, 212 - 3, 312 - 4, 412 - 5});
  request.mutable_options()->set_return_row_losses(true);

  const auto response = cluster.Eval(request);

  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(ValuesOf(response->row_losses()), ElementsAre(1, 4, 9, 16, 25));
  EXPECT_EQ(response->row_weights().dtype(), v1::INT64);
  EXPECT_EQ(response->row_weights().data().size(), 5 * sizeof(int64_t));
  EXPECT_EQ(response->loss().sum(), 55);
}

TEST(CoordinatorTest, LossDoesNotDependOnTheNumberOfMicrobatches) {
  TestCluster cluster(ClusterOf(2, 2, /*with_loss=*/true));
  std::vector<double> sums;

  for (const int m : {1, 2, 3, 7, 16}) {
    auto request = DigitsRequest(16, m);
    std::vector<double> targets;
    for (int i = 0; i < 16; ++i) {
      targets.push_back(DigitsOf(i, 2) + std::pow(10.0, i - 9) / 3);
    }
    (*request.mutable_targets())["t"] = Float64Tensor({16, 1}, targets);
    const auto response = cluster.Eval(request);
    ASSERT_TRUE(response.ok()) << response.status();
    sums.push_back(response->loss().sum());
  }

  for (const double sum : sums) EXPECT_EQ(sum, sums[0]);
}

TEST(CoordinatorTest, LargeOutputsAndFeedsAreExact) {
  TestCluster cluster;
  const auto request = DigitsRequest(200'003, 7);  // 1.6 MB each way

  const auto response = cluster.Eval(request);

  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(IsExact(request, *response, 2));
}

TEST(CoordinatorTest, ControlMessagesDoNotGrowWithMicrobatches) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.Eval(DigitsRequest(64, 1)).ok());
  ASSERT_TRUE(cluster.Eval(DigitsRequest(64, 64)).ok());  // plans installed

  for (const int m : {1, 64}) {
    const auto before = cluster.server().GetStatus().traffic();
    ASSERT_TRUE(cluster.Eval(DigitsRequest(64, m)).ok());
    const auto after = cluster.server().GetStatus().traffic();

    EXPECT_EQ(after.control_messages_sent() - before.control_messages_sent(),
              2);
    EXPECT_EQ(
        after.control_messages_received() - before.control_messages_received(),
        2);
    EXPECT_EQ(after.payload_bytes_sent() - before.payload_bytes_sent(), 64 * 8);
  }
  EXPECT_EQ(cluster.worker(0).Count(v1::CoordinatorMessage::kInstallPlan), 2);
}

TEST(CoordinatorTest, PlansAreCachedByWhatTheyDependOn) {
  TestCluster cluster;

  const auto first = cluster.Eval(DigitsRequest(5, 2));
  const auto other_batch = cluster.Eval(DigitsRequest(9, 2));
  auto renamed = DigitsRequest(9, 2);
  renamed.mutable_options()->set_schedule("1f1b");
  const auto other_case = cluster.Eval(renamed);

  ASSERT_TRUE(first.ok() && other_batch.ok() && other_case.ok());
  EXPECT_FALSE(first->ran().plan_cache_hit());
  EXPECT_TRUE(other_batch->ran().plan_cache_hit());
  EXPECT_TRUE(other_case->ran().plan_cache_hit());
  EXPECT_EQ(other_case->ran().schedule(), "1F1B");
  const auto plans = cluster.server().GetStatus().plan_cache();
  EXPECT_EQ(plans.hits(), 2);
  EXPECT_EQ(plans.misses(), 1);
  EXPECT_EQ(plans.entries(), 1);
}

TEST(CoordinatorTest, MicrobatchRowsSetTheNumberOfMicrobatches) {
  TestCluster cluster;
  auto request = DigitsRequest(7, 1);
  request.mutable_options()->set_microbatch_rows(3);

  const auto response = cluster.Eval(request);

  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->ran().num_microbatches(), 3);
}

TEST(CoordinatorTest, TimelineIsThereWhenAskedFor) {
  TestCluster cluster;
  auto request = DigitsRequest(4, 2);
  request.mutable_options()->set_return_timeline(true);

  const auto response = cluster.Eval(request);

  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->timeline_size(), 2);
  EXPECT_EQ(response->timeline(0).rank(), 0);
  EXPECT_EQ(response->timeline(1).worker(), "w1");
  ASSERT_EQ(response->timeline(1).actions_size(), 2);
  EXPECT_EQ(response->timeline(1).actions(1).action(), "1F1");
  EXPECT_GT(response->timings().total_s(), 0);
  EXPECT_GT(response->timings().execute_s(), 0);
}

TEST(CoordinatorTest, CallsOfManyClientsNeverMix) {
  TestCluster cluster;
  std::vector<std::thread> clients;
  std::atomic<int> wrong = 0;

  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&cluster, &wrong, c] {
      for (int i = 0; i < 40; ++i) {
        const auto request =
            DigitsRequest(1 + (i + c) % 9, 1 + i % 5, 1000.0 * c);
        const auto response = cluster.Eval(request);
        if (!response.ok() || !IsExact(request, *response, 2)) ++wrong;
      }
    });
  }
  for (auto& client : clients) client.join();

  EXPECT_EQ(wrong, 0);
  const auto status = cluster.GetStatus();
  EXPECT_EQ(status.calls_succeeded(), 320);
  EXPECT_EQ(status.queue().calls_running(), 0);
}

TEST(CoordinatorTest, StatusSaysWhoIsThereAndWhatIsServed) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.Eval(DigitsRequest(1, 1)).ok());

  const auto status = cluster.GetStatus();

  EXPECT_EQ(status.state(), v1::READY);
  EXPECT_EQ(status.workers_expected(), 2);
  ASSERT_EQ(status.workers_size(), 2);
  EXPECT_EQ(status.workers(1).name(), "w1");
  EXPECT_EQ(status.workers(1).backend(), "gloo");
  EXPECT_THAT(status.workers(1).stages(), ElementsAre("digits@1/1"));
  EXPECT_THAT(status.serving(), ElementsAre("digits@1"));
  EXPECT_EQ(status.epoch(), 77);
  EXPECT_EQ(status.generation(), 1);
  EXPECT_EQ(status.calls_succeeded(), 1);
}

TEST(CoordinatorTest, WeightedNumbersOfTheReplyNameTheModel) {
  TestCluster cluster;

  const auto response = cluster.Eval(DigitsRequest(2, 1));

  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->ran().model(), "digits");
  EXPECT_EQ(response->ran().version(), "1");
  EXPECT_EQ(response->ran().model_digest().size(), 64);
  EXPECT_THAT(response->ran().call_id(), HasSubstr("77-"));
}

}  // namespace
}  // namespace pipestage
