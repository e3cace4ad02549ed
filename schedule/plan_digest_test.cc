#include "schedule/plan_digest.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace pipestage {
namespace {

Plan SmallPlan() {
  Plan plan;
  plan.schedule = "GPipe";
  plan.num_microbatches = 1;
  plan.stage_ranks = {Rank(0), Rank(1)};
  plan.ranks = *ParseCsv("0F0,0SEND_F0\n1RECV_F0,1F0\n");
  return plan;
}

TEST(PlanDigestTest, TheIdIsNotPartOfIt) {
  Plan plan = SmallPlan();
  plan.id = "anything";

  EXPECT_EQ(PlanDigest(plan), PlanDigest(SmallPlan()));
  EXPECT_EQ(PlanDigest(plan).size(), 32u);
}

TEST(PlanDigestTest, EverythingElseIs) {
  std::set<std::string> digests = {PlanDigest(SmallPlan())};
  Plan plan = SmallPlan();
  plan.mode = PlanMode::kStep;
  digests.insert(PlanDigest(plan));
  plan = SmallPlan();
  plan.schedule = "1F1B";
  digests.insert(PlanDigest(plan));
  plan = SmallPlan();
  plan.num_microbatches = 2;
  digests.insert(PlanDigest(plan));
  plan = SmallPlan();
  plan.stage_ranks[1] = Rank(0);
  digests.insert(PlanDigest(plan));
  plan = SmallPlan();
  plan.ranks[1].pop_back();
  digests.insert(PlanDigest(plan));

  EXPECT_EQ(digests.size(), 6u);
}

}  // namespace
}  // namespace pipestage
