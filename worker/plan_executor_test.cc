#include "worker/plan_executor.h"

#include <numeric>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error_info.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/testing/executor_cluster.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> Rows(int count, double first = 0) {
  std::vector<double> rows(count);
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

// Row i after stages 1 .. count.
std::vector<double> Digits(std::vector<double> rows, int count) {
  for (double& row : rows) {
    for (int s = 1; s <= count; ++s) row = 10 * row + s;
  }
  return rows;
}

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// ---- every size

using GridParam = std::tuple<int, int, bool>;
class PlanExecutorGridTest : public ::testing::TestWithParam<GridParam> {};

TEST_P(PlanExecutorGridTest, OutputsAndSumsAreExactForAllRowsAndMicrobatches) {
  const auto [num_ranks, stages_per_rank, depth_first] = GetParam();
  const int num_stages = num_ranks * stages_per_rank;
  ExecutorCluster cluster(
      DigitPipeline(num_stages),
      {.num_ranks = num_ranks, .stages_per_rank = stages_per_rank});
  std::vector<ToyCall> calls;
  for (int rows = 1; rows <= 9; ++rows) {
    for (int m = 1; m <= std::min(rows, 8); ++m) {
      calls.push_back({.num_microbatches = m,
                       .x = Rows(rows, 10 * rows),
                       .depth_first = depth_first});
    }
  }

  const std::vector<ToyResult> results = cluster.Run(calls);

  for (size_t n = 0; n < calls.size(); ++n) {
    const auto expected = Digits(calls[n].x, num_stages);
    EXPECT_TRUE(results[n].complete());
    EXPECT_EQ(results[n].y(), expected);
    EXPECT_EQ(results[n].loss.sum.Round(), Sum(expected));
    EXPECT_EQ(results[n].loss.weight, calls[n].x.size());
  }
}

INSTANTIATE_TEST_SUITE_P(RanksAndStages, PlanExecutorGridTest,
                         ::testing::Combine(::testing::Range(1, 5),
                                            ::testing::Values(1, 2),
                                            ::testing::Bool()));

// ---- what stages may look like

TEST(PlanExecutorTest, DtypesMayChangeBetweenStages) {
  ToyPipeline pipeline = DigitPipeline(4);
  pipeline.stages[0].output_dtype = "float32";
  pipeline.stages[1].output_dtype = "int64";
  pipeline.stages[2].output_dtype = "int32";
  ExecutorCluster cluster(pipeline, {.num_ranks = 4});

  const auto results = cluster.Run({{.num_microbatches = 3, .x = Rows(7)}});

  EXPECT_EQ(results[0].y(), Digits(Rows(7), 4));
}

TEST(PlanExecutorTest, SeveralTensorsCrossABoundary) {
  ToyPipeline pipeline;
  pipeline.width = 3;
  pipeline.stages = {{"digit", R"({"s": 1})"},
                     {"pair", R"({"s": 2})", {}, "float32"},
                     {"join"}};
  ExecutorCluster cluster(pipeline, {.num_ranks = 3});

  const auto results = cluster.Run({{.num_microbatches = 2, .x = Rows(9)}});

  std::vector<double> expected;
  for (double x : Rows(9)) expected.push_back(11 * (10 * x + 1) + 2);
  EXPECT_EQ(results[0].y(), expected);
}

TEST(PlanExecutorTest, KeywordsReachEveryStageThatDeclaresThem) {
  ToyPipeline pipeline = DigitPipeline(4);
  pipeline.scalars = {"scale"};
  pipeline.positions = {"pos"};
  pipeline.stages[0].keywords = {"pos"};
  pipeline.stages[2].keywords = {"scale", "pos"};
  ExecutorCluster cluster(pipeline, {.num_ranks = 2, .stages_per_rank = 2});

  const auto results = cluster.Run({{.num_microbatches = 2,
                                     .x = Rows(5),
                                     .scalars = {{"scale", 3}},
                                     .positions = {{"pos", Rows(5, 7)}}}});

  std::vector<double> expected;
  for (double x : Rows(5)) {
    const double pos = x + 7;
    double y = 10 * (x + pos) + 1;
    y = 10 * y + 2;
    y = 10 * (3 * y + pos) + 3;
    expected.push_back(10 * y + 4);
  }
  EXPECT_EQ(results[0].y(), expected);
}

TEST(PlanExecutorTest, TargetsMeetTheOutputsOfTheirOwnMicrobatch) {
  ToyPipeline pipeline = DigitPipeline(2);
  pipeline.loss = "mse";
  ExecutorCluster cluster(pipeline, {.num_ranks = 2});
  std::vector<double> t = Digits(Rows(7), 2);
  for (size_t i = 0; i < t.size(); ++i) t[i] += static_cast<double>(i);

  const auto results =
      cluster.Run({{.num_microbatches = 3, .x = Rows(7), .t = t}});

  EXPECT_EQ(results[0].loss.sum.Round(), 0 + 1 + 4 + 9 + 16 + 25 + 36);
  EXPECT_EQ(results[0].loss.weight, 7);
}

TEST(PlanExecutorTest, OutputMayHaveAsManyRowsAsTheDataSays) {
  ToyPipeline pipeline = DigitPipeline(1);
  pipeline.stages.push_back({"odd_rows"});
  pipeline.loss = "";
  pipeline.stages[0].module = "affine";
  pipeline.stages[0].params = R"({"scale": 1})";
  ExecutorCluster cluster(pipeline, {.num_ranks = 2});

  const auto results = cluster.Run({{.num_microbatches = 3,
                                     .x = {1, 2, 3, 4, 6, 8, 9},
                                     .wishes = {.outputs = {0}}}});

  EXPECT_EQ(results[0].y(), (std::vector<double>{1, 3, 9}));
}

TEST(PlanExecutorTest, TimelineHasEveryForwardOfTheRank) {
  ExecutorCluster cluster(DigitPipeline(2), {.num_ranks = 2});

  const auto results = cluster.Run(
      {{.num_microbatches = 3, .x = Rows(3), .wishes = {.timeline = true}}});

  const auto& timeline = results[0].outcomes[1]->timeline;
  ASSERT_EQ(timeline.size(), 3);
  for (int m = 0; m < 3; ++m) {
    EXPECT_EQ(timeline[m].stage, StageIndex(1));
    EXPECT_EQ(timeline[m].microbatch, MicrobatchIndex(m));
    EXPECT_LE(timeline[m].start_us, timeline[m].end_us);
  }
}

// ---- calls that fail

// The input x for which digit stages before `stage` give boom's `at`.
ToyPipeline BoomPipeline(int num_stages, int stage, double bad_row) {
  ToyPipeline pipeline = DigitPipeline(num_stages);
  const double at = Digits({bad_row}, stage)[0];
  pipeline.stages[stage].module = "boom";
  pipeline.stages[stage].params =
      absl::StrCat(R"({"s":)", stage + 1, R"(,"at":)", at, "}");
  return pipeline;
}

class PlanExecutorBoomTest
    : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(PlanExecutorBoomTest, FailedCallHarmsNoneOfThoseBehindIt) {
  const auto [stage, microbatch] = GetParam();
  // Rows 0..3, one a microbatch; the other calls have other rows.
  ExecutorCluster cluster(BoomPipeline(4, stage, microbatch),
                          {.num_ranks = 2, .stages_per_rank = 2});
  const ToyCall bad = {.num_microbatches = 4, .x = Rows(4)};
  const ToyCall good = {.num_microbatches = 3, .x = Rows(8, 10)};

  const auto results = cluster.Run({good, bad, good, good});

  const int rank = stage % 2;
  EXPECT_THAT(
      results[1].failures[rank],
      StatusIs(absl::StatusCode::kAborted,
               absl::StrCat("stage ", stage, " failed on microbatch ",
                            microbatch, " (action ", stage, "F", microbatch,
                            ", worker w", rank, ", rank ", rank, "): boom")));
  EXPECT_EQ(GetReason(results[1].failures[rank]), reason::kStageFailed);
  EXPECT_THAT(results[1].failures[1 - rank], IsOk());
  for (int n : {0, 2, 3}) {
    EXPECT_TRUE(results[n].complete());
    EXPECT_EQ(results[n].y(), Digits(good.x, 4));
    EXPECT_EQ(results[n].loss.sum.Round(), Sum(Digits(good.x, 4)));
  }
}

TEST_P(PlanExecutorBoomTest, EveryRankKnowsThatItsPartIsIncomplete) {
  const auto [stage, microbatch] = GetParam();
  ExecutorCluster cluster(BoomPipeline(4, stage, microbatch), {.num_ranks = 4});

  const auto results = cluster.Run({{.num_microbatches = 4, .x = Rows(4)},
                                    {.num_microbatches = 4, .x = Rows(4, 10)}});

  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_THAT(results[0].outcomes[rank], IsOk());
    // Ranks before the failed stage had computed all of theirs.
    EXPECT_EQ(results[0].outcomes[rank]->complete, rank < stage);
  }
  EXPECT_EQ(results[1].y(), Digits(Rows(4, 10), 4));
}

INSTANTIATE_TEST_SUITE_P(StagesAndMicrobatches, PlanExecutorBoomTest,
                         ::testing::Combine(::testing::Range(0, 4),
                                            ::testing::Range(0, 4)));

TEST(PlanExecutorTest, FailureNamesWhereInItsMetadata) {
  ExecutorCluster cluster(BoomPipeline(2, 1, 2), {.num_ranks = 2});

  const auto results = cluster.Run({{.num_microbatches = 4, .x = Rows(4)}});

  const auto info = GetErrorInfo(results[0].failures[1]);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->metadata().at("stage"), "1");
  EXPECT_EQ(info->metadata().at("microbatch"), "2");
  EXPECT_EQ(info->metadata().at("action"), "1F2");
  EXPECT_EQ(info->metadata().at("rank"), "1");
  EXPECT_EQ(info->metadata().at("worker"), "w1");
}

TEST(PlanExecutorTest, OutputThatBreaksTheContractIsNotSent) {
  ToyPipeline pipeline = DigitPipeline(3);
  pipeline.dtype = "float32";
  pipeline.width = 16;
  pipeline.stages[1].module = "wrong_shape";
  pipeline.stages[1].params = "{}";
  pipeline.loss = "";
  ExecutorCluster cluster(pipeline, {.num_ranks = 3});

  const auto results = cluster.Run({{.num_microbatches = 2,
                                     .x = Rows(16 * 16),
                                     .wishes = {.outputs = {0}}}});

  EXPECT_THAT(results[0].failures[1],
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("stage 1 returned float32 [8,15]; the model's "
                                 "contract says float32 [8,16]")));
  EXPECT_EQ(GetReason(results[0].failures[1]), reason::kShapeMismatch);
  EXPECT_TRUE(results[0].outputs.empty());
}

TEST(PlanExecutorTest, FeedOfTheWrongSizeFailsItsCallOnly) {
  ExecutorCluster cluster(DigitPipeline(2), {.num_ranks = 2});
  const ToyCall good = {.num_microbatches = 2, .x = Rows(4)};
  ToyCall bad = good;
  bad.feed = false;
  cluster.Prepare({bad, good});
  v1::FeedData feed;
  feed.set_num_microbatches(2);
  feed.set_data("nonsense");
  cluster.inbox(0, 0).AddFeed(feed);

  const auto results = cluster.Run({bad, good});

  EXPECT_THAT(results[0].failures[0],
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("microbatches [0,2) of argument 'x'"),
                             HasSubstr("8 bytes; the model's contract says "
                                       "32 bytes"))));
  EXPECT_EQ(results[1].y(), Digits(Rows(4), 2));
}

TEST(PlanExecutorTest, LossThatTheModelLacksFailsTheCall) {
  ToyPipeline pipeline = DigitPipeline(2);
  pipeline.loss = "";
  ExecutorCluster cluster(pipeline, {.num_ranks = 2});

  const auto results = cluster.Run({{.num_microbatches = 2, .x = Rows(4)}});

  EXPECT_THAT(results[0].failures[1],
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("model toy@1 has none")));
}

// ---- feeds and cancels in time

TEST(PlanExecutorTest, CallWaitsForFeedsThatComeLate) {
  ExecutorCluster cluster(DigitPipeline(2), {.num_ranks = 2});
  const ToyCall call = {.num_microbatches = 2, .x = Rows(4), .feed = false};
  cluster.Prepare({call});

  const auto results = cluster.Run({call}, [&] { cluster.Feed(call, 0); });

  EXPECT_EQ(results[0].y(), Digits(Rows(4), 2));
}

TEST(PlanExecutorTest, CancelEndsTheWaitForAFeed) {
  ExecutorCluster cluster(DigitPipeline(3), {.num_ranks = 3});
  const ToyCall starved = {.num_microbatches = 2, .x = Rows(4), .feed = false};
  const ToyCall good = {.num_microbatches = 2, .x = Rows(4)};
  cluster.Prepare({starved, good});

  const auto results = cluster.Run(
      {starved, good}, [&] { cluster.inbox(0, 0).Cancel("client is gone"); });

  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_THAT(results[0].outcomes[rank], IsOk());
    EXPECT_FALSE(results[0].outcomes[rank]->complete);
    EXPECT_THAT(results[0].failures[rank], IsOk());
  }
  EXPECT_EQ(results[1].y(), Digits(Rows(4), 3));
}

// Cancels after so many forwards, on the rank that runs them.
class PlanExecutorCancelTest : public ::testing::TestWithParam<int> {};

TEST_P(PlanExecutorCancelTest, CancelAtAnyForwardLeavesNextCallExact) {
  std::atomic<int> forwards = 0;
  absl::Notification reached;
  absl::Notification go_on;
  ExecutorCluster cluster(
      DigitPipeline(4),
      {.num_ranks = 2, .stages_per_rank = 2, .before_forward = [&](StageIndex) {
         if (forwards++ == GetParam()) {
           reached.Notify();
           go_on.WaitForNotification();
         }
         return absl::OkStatus();
       }});
  const ToyCall call = {.num_microbatches = 3, .x = Rows(6)};
  cluster.Prepare({call, call, call});

  const auto results = cluster.Run({call, call, call}, [&] {
    reached.WaitForNotification();
    for (int rank : {0, 1}) cluster.inbox(0, rank).Cancel("test");
    go_on.Notify();
  });

  for (int rank : {0, 1}) ASSERT_THAT(results[0].outcomes[rank], IsOk());
  for (int n : {1, 2}) EXPECT_EQ(results[n].y(), Digits(Rows(6), 4));
}

INSTANTIATE_TEST_SUITE_P(EveryForward, PlanExecutorCancelTest,
                         ::testing::Range(0, 12));

TEST(PlanExecutorTest, AbortedInboxEndsExecution) {
  ExecutorCluster cluster(DigitPipeline(1), {});
  const ToyCall starved = {.x = Rows(4), .feed = false};
  cluster.Prepare({starved});

  const auto results = cluster.Run({starved}, [&] {
    cluster.inbox(0, 0).Abort(absl::UnavailableError("generation over"));
  });

  EXPECT_THAT(results[0].outcomes[0],
              StatusIs(absl::StatusCode::kUnavailable, "generation over"));
}

// ---- memory

TEST(PlanExecutorTest, BuffersFollowTheWindowNotTheMicrobatches) {
  PlanExecutor::Options options;
  options.receive.max_messages = 3;
  ExecutorCluster cluster(DigitPipeline(2),
                          {.num_ranks = 2, .executor = options});
  const ToyCall call = {.num_microbatches = 200, .x = Rows(200)};

  const auto results = cluster.Run({call, call, call, call});

  EXPECT_EQ(results[3].y(), Digits(call.x, 2));
  EXPECT_LE(cluster.buffers(1).allocations(), 3 + 2);
}

TEST(PlanExecutorTest, WindowOfOneIsEnough) {
  PlanExecutor::Options options;
  options.receive.max_messages = 1;
  options.send.max_messages = 1;
  options.send.checksum = true;
  ExecutorCluster cluster(
      DigitPipeline(6),
      {.num_ranks = 3, .stages_per_rank = 2, .executor = options});
  const ToyCall call = {.num_microbatches = 8, .x = Rows(9)};

  const auto results = cluster.Run({call, call});

  EXPECT_EQ(results[0].y(), Digits(call.x, 6));
  EXPECT_EQ(results[1].y(), Digits(call.x, 6));
}

TEST(PlanExecutorTest, WithoutWishesNothingIsKept) {
  ExecutorCluster cluster(DigitPipeline(2), {.num_ranks = 2});

  const auto results =
      cluster.Run({{.num_microbatches = 4, .x = Rows(8), .wishes = {}}});

  EXPECT_TRUE(results[0].complete());
  EXPECT_TRUE(results[0].outputs.empty());
}

}  // namespace
}  // namespace pipestage
