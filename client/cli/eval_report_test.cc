#include "client/cli/eval_report.h"

#include <limits>
#include <string>

#include "client/cli/message_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void Set(v1::Loss* loss, double sum, int64_t weight, int64_t nonfinite = 0) {
  loss->set_sum(sum);
  loss->set_weight(weight);
  if (weight > 0) loss->set_mean(sum / weight);
  loss->set_nonfinite(nonfinite);
}

// Two microbatches of three and two rows.
EvalResult TwoMicrobatches(double second_sum, int64_t second_nonfinite = 0) {
  EvalResult result;
  v1::EvalResponse& summary = result.summary;
  Set(summary.mutable_loss(), 1.5 + second_sum, 5, second_nonfinite);
  for (int m : {0, 1}) {
    v1::MicrobatchLoss* microbatch = summary.add_microbatches();
    microbatch->set_microbatch(m);
    microbatch->set_first_row(3 * m);
    microbatch->set_rows(3 - m);
  }
  Set(summary.mutable_microbatches(0)->mutable_loss(), 1.5, 3);
  Set(summary.mutable_microbatches(1)->mutable_loss(), second_sum, 2,
      second_nonfinite);
  summary.mutable_ran()->set_model("echo");
  summary.mutable_ran()->set_version("1");
  summary.mutable_ran()->set_schedule("1F1B");
  summary.mutable_timings()->set_total_s(0.25);
  return result;
}

TEST(EvalReportTextTest, LossMicrobatchesAndTimesAreTold) {
  const EvalResult result = TwoMicrobatches(3.5);

  const std::string text = EvalReportText({result, 0.5});

  EXPECT_THAT(text, HasSubstr("loss        1 = sum 5 / weight 5\n"));
  EXPECT_THAT(text, HasSubstr("0..2"));
  EXPECT_THAT(text, HasSubstr("3..4"));
  EXPECT_THAT(text, HasSubstr("1.75"));
  EXPECT_THAT(text, HasSubstr("echo@1"));
  EXPECT_THAT(text, HasSubstr("0.2500 s: queue"));
  EXPECT_THAT(text, HasSubstr("0.5000 s with transfer"));
  EXPECT_THAT(text, Not(HasSubstr("not finite")));
}

TEST(EvalReportTextTest, ALossThatIsNotFiniteIsToldWithItsMicrobatch) {
  const EvalResult result =
      TwoMicrobatches(std::numeric_limits<double>::quiet_NaN(), 2);

  EXPECT_THAT(EvalReportText({result}),
              HasSubstr("not finite  2 losses are NaN or infinite, in "
                        "microbatch 1 (rows 3..4)\n"));
}

TEST(EvalReportTextTest, NoValidTargetsAreSaidToBeSo) {
  EvalResult result;
  Set(result.summary.mutable_loss(), 0, 0);

  EXPECT_THAT(EvalReportText({result}), HasSubstr("no valid targets"));
}

TEST(EvalReportTextTest, AModelWithoutLossIsSaidToHaveNone) {
  EXPECT_THAT(EvalReportText({EvalResult()}),
              HasSubstr("loss        this model has none\n"));
}

TEST(EvalReportTextTest, ManyMicrobatchesAreNotAllListed) {
  EvalResult result;
  Set(result.summary.mutable_loss(), 512, 512);
  for (int m = 0; m < 512; ++m) {
    result.summary.add_microbatches()->set_microbatch(m);
  }

  EXPECT_THAT(EvalReportText({result}), HasSubstr("and 480 more"));
}

TEST(EvalReportTextTest, OutputsAreToldWithTheirFiles) {
  EvalResult result;
  result.outputs["y"] = {DType::kFloat32, {2, 3}, Buffer::Allocate(24)};
  EvalReport report{result};
  EXPECT_THAT(EvalReportText(report),
              HasSubstr("output      y float32 [2,3] (not written"));

  report.output_files["y"] = "out/y.npy";
  EXPECT_THAT(EvalReportText(report),
              HasSubstr("y float32 [2,3] in out/y.npy\n"));
}

TEST(EvalReportTextTest, TheTimelineIsDrawnAndUnknownActionsPassedOver) {
  EvalResult result;
  v1::WorkerTimeline* worker = result.summary.add_timeline();
  for (const char* name : {"0F0", "0F1", "0NEW_KIND1"}) {
    v1::TimelineAction* action = worker->add_actions();
    action->set_action(name);
    action->set_start_s(worker->actions_size() - 1);
    action->set_end_s(worker->actions_size());
  }
  EvalReport report{result};
  report.timeline = true;

  EXPECT_THAT(EvalReportText(report), HasSubstr("rank 0   stage 0   00000"));
}

TEST(EvalReportJsonTest, HoldsLossAndMicrobatches) {
  const EvalResult result = TwoMicrobatches(3.5);

  const Json json = Json::parse(EvalReportJson({result, 0.5}));

  EXPECT_EQ(json["loss_sum"], 5.0);
  EXPECT_EQ(json["weight"], 5);
  EXPECT_EQ(json["loss"], 1.0);
  ASSERT_EQ(json["microbatches"].size(), 2u);
  EXPECT_EQ(json["microbatches"][1],
            Json::parse(R"({"microbatch": 1, "first_row": 3, "rows": 2,
                            "loss_sum": 3.5, "weight": 2, "loss": 1.75,
                            "nonfinite": 0})"));
  EXPECT_EQ(json["ran"]["model"], "echo");
  EXPECT_EQ(json["timings"]["total_s"], 0.25);
  EXPECT_EQ(json["timings"]["wall_s"], 0.5);
}

TEST(EvalReportJsonTest, SumsKeepEveryBit) {
  EvalResult result;
  Set(result.summary.mutable_loss(), 0.1 + 0.2, 1);

  EXPECT_EQ(Json::parse(EvalReportJson({result}))["loss_sum"], 0.1 + 0.2);
}

TEST(EvalReportJsonTest, WhatIsNotFiniteOrNotThereIsNull) {
  const EvalResult nan =
      TwoMicrobatches(std::numeric_limits<double>::infinity(), 1);
  const std::string text = EvalReportJson({nan});
  const Json json = Json::parse(text);

  EXPECT_TRUE(json["loss_sum"].is_null());
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_EQ(json["nonfinite"], 1);
  EXPECT_TRUE(json["microbatches"][1]["loss"].is_null());
  EXPECT_EQ(json["microbatches"][0]["loss"], 0.5);

  EvalResult weightless;
  Set(weightless.summary.mutable_loss(), 0, 0);
  EXPECT_EQ(Json::parse(EvalReportJson({weightless}))["weight"], 0);
  EXPECT_TRUE(Json::parse(EvalReportJson({weightless}))["loss"].is_null());

  EXPECT_TRUE(Json::parse(EvalReportJson({EvalResult()}))["weight"].is_null());
}

}  // namespace
}  // namespace pipestage
