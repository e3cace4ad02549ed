#include "schedule/plan_digest.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/sha256.h"

namespace pipestage {

std::string PlanDigest(const Plan& plan) {
  const std::string owners = absl::StrJoin(
      plan.stage_ranks, ",",
      [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value()); });
  const std::string text = absl::StrCat(
      "pipestage.plan/1\n", plan.mode == PlanMode::kEval ? "eval" : "step",
      "\n", plan.schedule, "\n", plan.num_microbatches, "\n", owners, "\n",
      ToCsv(plan.ranks));
  return Sha256Hex(text).substr(0, 32);
}

}  // namespace pipestage
