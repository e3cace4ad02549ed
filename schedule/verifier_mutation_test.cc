// Damaged plans: each is refused, or does exactly what the plan it came from
// does.

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schedule/compiler.h"
#include "schedule/schedule_registry.h"
#include "schedule/verifier.h"

namespace pipestage {
namespace {

// Executes plans literally, knowing none of the verifier's rules: a value is
// the list of stages it went through, a pair of ranks is a rendezvous without
// tags, and what is received is whatever was sent.
class Executor {
 public:
  explicit Executor(const Plan& plan)
      : plan_(plan), next_(plan.num_ranks(), 0), held_(plan.num_ranks()) {}

  // What the last stage computed by microbatch, or nothing if the plan stops,
  // or an action finds no data, or makes something twice.
  std::optional<std::map<int, std::string>> Run() {
    bool moved = true;
    while (moved && !broken_) {
      moved = false;
      for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
        moved = TakeOne(rank) || moved;
      }
    }
    for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
      if (next_[rank] < plan_.ranks[rank].size()) return std::nullopt;
    }
    if (broken_) return std::nullopt;
    return results_;
  }

 private:
  // (stage, microbatch) of the stage that takes the value as its input.
  using Key = std::pair<int, int>;

  const Action* Current(int rank) const {
    if (rank < 0 || rank >= plan_.num_ranks()) return nullptr;
    return next_[rank] < plan_.ranks[rank].size()
               ? &plan_.ranks[rank][next_[rank]]
               : nullptr;
  }
  int Owner(int stage) const {
    return stage >= 0 && stage < plan_.num_stages()
               ? plan_.stage_ranks[stage].value()
               : -1;
  }

  bool TakeOne(int rank) {
    const Action* action = Current(rank);
    if (action == nullptr) return false;
    if (action->kind == ActionKind::kForward) return Forward(rank, *action);
    if (action->kind == ActionKind::kSendForward) return Send(rank, *action);
    // Receives are taken by their sends. Anything else cannot be executed.
    if (action->kind != ActionKind::kRecvForward) broken_ = true;
    return false;
  }

  bool Forward(int rank, const Action& action) {
    const int stage = action.stage.value();
    const int microbatch = action.microbatch.value();
    std::string input = absl::StrCat("m", microbatch);
    if (stage > 0) {
      auto held = held_[rank].find({stage, microbatch});
      if (held == held_[rank].end()) return Broken();
      input = held->second;
      held_[rank].erase(held);
    }
    const std::string output = absl::StrCat(input, ">", stage);
    if (stage == plan_.num_stages() - 1) {
      if (!results_.emplace(microbatch, output).second) return Broken();
    } else if (!held_[rank]
                    .emplace(Key(stage + 1, microbatch), output)
                    .second) {
      return Broken();
    }
    ++next_[rank];
    return true;
  }

  bool Send(int rank, const Action& action) {
    const int receiver = Owner(action.stage.value() + 1);
    const Action* other = Current(receiver);
    if (receiver == rank || receiver < 0) return Broken();
    if (other == nullptr || other->kind != ActionKind::kRecvForward ||
        Owner(other->stage.value() - 1) != rank) {
      return false;
    }
    auto held =
        held_[rank].find({action.stage.value() + 1, action.microbatch.value()});
    if (held == held_[rank].end()) return Broken();
    const Key key(other->stage.value(), other->microbatch.value());
    if (!held_[receiver].emplace(key, held->second).second) return Broken();
    held_[rank].erase(held);
    ++next_[rank];
    ++next_[receiver];
    return true;
  }

  bool Broken() {
    broken_ = true;
    return false;
  }

  const Plan& plan_;
  std::vector<size_t> next_;
  std::vector<std::map<Key, std::string>> held_;
  std::map<int, std::string> results_;
  bool broken_ = false;
};

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  Plan Mutate(Plan plan) {
    std::vector<Action>& row = plan.ranks[Below(plan.num_ranks())];
    const size_t at = Below(row.size());
    switch (Below(7)) {
      case 0:
        row.erase(row.begin() + at);
        break;
      case 1:
        row.insert(row.begin() + Below(row.size() + 1), Action(row[at]));
        break;
      case 2:
        std::swap(row[at], row[Below(row.size())]);
        break;
      case 3:
        if (at + 1 < row.size()) std::swap(row[at], row[at + 1]);
        break;
      case 4:
        row[at].stage = StageIndex(Below(plan.num_stages() + 2)) - 1;
        break;
      case 5:
        row[at].microbatch =
            MicrobatchIndex(Below(plan.num_microbatches + 2)) - 1;
        break;
      case 6:
        row[at].kind = static_cast<ActionKind>(1 + Below(12));
        break;
    }
    return plan;
  }

 private:
  int Below(size_t bound) { return static_cast<int>(random_() % bound); }

  std::mt19937 random_;
};

TEST(VerifierMutationTest, ADamagedPlanIsRefusedOrDoesTheSame) {
  int refused = 0;
  int accepted = 0;
  uint32_t seed = 0;
  for (const Schedule& schedule : AvailableSchedules()) {
    for (int p = 1; p <= 4; ++p) {
      for (int v = 1; v <= 3; ++v) {
        if (!CheckShape(schedule, {p, v, 1}).ok()) continue;
        for (int m : {1, 2, 5}) {
          const auto plan = *CompilePlan(
              {PlanMode::kEval, std::string(schedule.name), p, v, m});
          const auto expected = Executor(*plan).Run();
          ASSERT_TRUE(expected.has_value());
          ASSERT_EQ(expected->size(), static_cast<size_t>(m));
          for (int i = 0; i < 40; ++i) {
            const Plan mutant = Mutator(++seed).Mutate(*plan);
            if (!VerifyPlan(mutant).ok()) {
              ++refused;
              continue;
            }
            ++accepted;
            EXPECT_EQ(Executor(mutant).Run(), expected)
                << "seed " << seed << "\n"
                << ToCsv(mutant.ranks);
          }
        }
      }
    }
  }
  EXPECT_GE(refused, 2000);
  EXPECT_GT(accepted, 0);  // swaps of what does not depend on each other
}

}  // namespace
}  // namespace pipestage
