#include "schedule/plan.h"

#include <functional>
#include <string>
#include <vector>

#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

Plan TwoRankPlan() {
  Plan plan;
  plan.id = "p";
  plan.schedule = "GPipe";
  plan.num_microbatches = 2;
  plan.stage_ranks = {Rank(0), Rank(1)};
  plan.ranks = *ParseCsv(
      "0F0,0SEND_F0,0F1,0SEND_F1\n"
      "1RECV_F0,1F0,1RECV_F1,1F1\n");
  return plan;
}

TEST(RankPlanTest, ComesBackFromItsMessage) {
  const Plan plan = TwoRankPlan();

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(RankPlan decoded,
                                 DecodeRankPlan(EncodeRankPlan(plan, Rank(1))));

  EXPECT_EQ(decoded.id, "p");
  EXPECT_EQ(decoded.rank, Rank(1));
  EXPECT_EQ(decoded.num_ranks, 2);
  EXPECT_EQ(decoded.num_stages(), 2);
  EXPECT_EQ(decoded.num_microbatches, 2);
  EXPECT_EQ(decoded.owner(StageIndex(1)), Rank(1));
  EXPECT_EQ(decoded.actions, plan.ranks[1]);
}

struct Damage {
  std::string name;
  std::function<void(v1::RankPlan&)> apply;
  std::string message;
};

TEST(RankPlanTest, WhatCannotBeExecutedIsRefused) {
  const std::vector<Damage> damages = {
      {"no id", [](auto& p) { p.clear_plan_id(); }, "no id"},
      {"no ranks", [](auto& p) { p.set_num_ranks(0); }, "num_ranks is 0"},
      {"rank", [](auto& p) { p.set_rank(2); }, "rank 2 is not one of 2"},
      {"negative rank", [](auto& p) { p.set_rank(-1); }, "rank -1"},
      {"microbatches", [](auto& p) { p.set_num_microbatches(0); },
       "num_microbatches is 0"},
      {"stages", [](auto& p) { p.set_num_stages(3); },
       "stage_ranks has 2 entries for 3 stages"},
      {"owner", [](auto& p) { p.set_stage_ranks(0, 2); }, "on rank 2"},
      {"lengths", [](auto& p) { p.add_stages(0); },
       "4 kinds, 5 stages and 4 microbatches"},
      {"kind 0", [](auto& p) { p.set_kinds(1, v1::ActionKind(0)); },
       "action 1 has the unknown kind 0"},
      {"kind 99", [](auto& p) { p.set_kinds(1, v1::ActionKind(99)); },
       "unknown kind 99"},
      {"container", [](auto& p) { p.set_kinds(1, v1::OVERLAP_F_B); },
       "unknown kind 12"},
      {"stage", [](auto& p) { p.set_stages(0, 2); }, "stage 2"},
      {"negative stage", [](auto& p) { p.set_stages(0, -1); }, "stage -1"},
      {"foreign stage", [](auto& p) { p.set_stages(0, 0); },
       "stage of rank 0, not of rank 1"},
      {"microbatch", [](auto& p) { p.set_microbatches(1, 2); },
       "microbatch 2 of 2"},
      {"no microbatch", [](auto& p) { p.set_microbatches(1, -1); },
       "microbatch -1 of 2"},
      {"a microbatch too many", [](auto& p) { p.set_kinds(1, v1::UNSHARD); },
       "(UNSHARD) has"},
      {"send of the last stage", [](auto& p) { p.set_kinds(1, v1::SEND_F); },
       "1SEND_F0) has no stage on its other side"},
  };
  for (const Damage& damage : damages) {
    v1::RankPlan plan = EncodeRankPlan(TwoRankPlan(), Rank(1));
    damage.apply(plan);

    EXPECT_THAT(
        DecodeRankPlan(plan),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(damage.message)))
        << damage.name;
  }
}

}  // namespace
}  // namespace pipestage
