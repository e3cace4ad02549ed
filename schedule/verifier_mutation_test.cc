// Damaged plans: each is refused, or does exactly what the plan it came from
// does.

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schedule/compiler.h"
#include "schedule/schedule_registry.h"
#include "schedule/simulator.h"
#include "schedule/verifier.h"

namespace pipestage {
namespace {

// Executes plans literally, knowing none of the verifier's rules: a value says
// what it was made from, a pair of ranks is a rendezvous without tags, and what
// is received is whatever was sent.
class Executor {
 public:
  // What was made: the last stage's outputs, every weight gradient, and what
  // was reduced from them.
  using Results = std::map<std::string, std::string>;

  explicit Executor(const Plan& plan)
      : plan_(plan), next_(plan.num_ranks()), held_(plan.num_ranks()) {}

  // Nothing if the plan stops, or an action finds no data, or makes something
  // twice.
  std::optional<Results> Run() {
    bool moved = true;
    while (moved && !broken_) {
      moved = false;
      for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
        moved = TakeOne(rank) || moved;
      }
    }
    for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
      if (Current(rank) != nullptr) return std::nullopt;
    }
    if (broken_ || !gathered_.empty()) return std::nullopt;
    return results_;
  }

 private:
  enum Kind { kInput, kSaved, kGradient, kWeightPending };
  // What a rank holds for a stage and a microbatch of it.
  using Key = std::tuple<Kind, int, int>;

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
  bool IsLast(int stage) const { return stage == plan_.num_stages() - 1; }

  bool TakeOne(int rank) {
    const Action* action = Current(rank);
    if (action == nullptr) return false;
    switch (action->kind) {
      case ActionKind::kSendForward:
        return Send(rank, *action, ActionKind::kRecvForward, +1, kInput);
      case ActionKind::kSendBackward:
        return Send(rank, *action, ActionKind::kRecvBackward, -1, kGradient);
      case ActionKind::kRecvForward:
      case ActionKind::kRecvBackward:
        return false;  // taken by their sends
      default:
        ForEachPart(*action, [&](const Action& part) { Do(rank, part); });
        ++next_[rank];
        return !broken_;
    }
  }

  void Do(int rank, const Action& action) {
    const int stage = action.stage.value();
    const int microbatch = action.microbatch.value();
    if (IsCompute(action.kind) && uses_unshard_ &&
        gathered_.count(stage) == 0) {
      return Break();
    }
    switch (action.kind) {
      case ActionKind::kForward:
        return Forward(rank, stage, microbatch);
      case ActionKind::kBackward:
        BackwardInput(rank, stage, microbatch);
        return BackwardWeight(rank, stage, microbatch);
      case ActionKind::kBackwardInput:
        return BackwardInput(rank, stage, microbatch);
      case ActionKind::kBackwardWeight:
        return BackwardWeight(rank, stage, microbatch);
      case ActionKind::kUnshard:
        if (Owner(stage) != rank || !gathered_.insert(stage).second) Break();
        return;
      case ActionKind::kReshard:
        if (Owner(stage) != rank || gathered_.erase(stage) == 0) Break();
        return;
      case ActionKind::kReduceGrad:
        if (Owner(stage) != rank) return Break();
        return Make(absl::StrCat("reduced ", stage),
                    absl::StrCat(num_gradients_[stage]));
      default:
        return Break();
    }
  }

  void Forward(int rank, int stage, int microbatch) {
    std::string input = absl::StrCat("m", microbatch);
    if (stage > 0) input = Take(rank, {kInput, stage, microbatch});
    const std::string output = absl::StrCat(input, ">", stage);
    if (plan_.mode == PlanMode::kStep) {
      Hold(rank, {kSaved, stage, microbatch}, output);
    }
    if (IsLast(stage)) return Make(absl::StrCat("y", microbatch), output);
    Hold(rank, {kInput, stage + 1, microbatch}, output);
  }

  void BackwardInput(int rank, int stage, int microbatch) {
    const std::string saved = Take(rank, {kSaved, stage, microbatch});
    const std::string incoming =
        IsLast(stage) ? "" : Take(rank, {kGradient, stage, microbatch});
    const std::string gradient = absl::StrCat(incoming, "<", saved);
    Hold(rank, {kWeightPending, stage, microbatch}, gradient);
    if (stage > 0) Hold(rank, {kGradient, stage - 1, microbatch}, gradient);
  }

  void BackwardWeight(int rank, int stage, int microbatch) {
    ++num_gradients_[stage];
    Make(absl::StrCat("w", stage, ".", microbatch),
         Take(rank, {kWeightPending, stage, microbatch}));
  }

  bool Send(int rank, const Action& action, ActionKind recv, int to,
            Kind kind) {
    const int receiver = Owner(action.stage.value() + to);
    const Action* other = Current(receiver);
    if (receiver == rank || receiver < 0) return Break(), false;
    if (other == nullptr ||
        (other->kind != ActionKind::kRecvForward &&
         other->kind != ActionKind::kRecvBackward) ||
        Owner(other->stage.value() -
              (other->kind == ActionKind::kRecvForward ? 1 : -1)) != rank) {
      return false;
    }
    if (other->kind != recv) return Break(), false;
    const std::string value = Take(
        rank, {kind, action.stage.value() + to, action.microbatch.value()});
    Hold(receiver, {kind, other->stage.value(), other->microbatch.value()},
         value);
    ++next_[rank];
    ++next_[receiver];
    return !broken_;
  }

  std::string Take(int rank, const Key& key) {
    const auto held = held_[rank].find(key);
    if (held == held_[rank].end()) return Break(), "";
    const std::string value = held->second;
    held_[rank].erase(held);
    return value;
  }
  void Hold(int rank, const Key& key, const std::string& value) {
    if (!held_[rank].emplace(key, value).second) Break();
  }
  void Make(const std::string& name, const std::string& value) {
    if (!results_.emplace(name, value).second) Break();
  }
  void Break() { broken_ = true; }

  const Plan& plan_;
  const bool uses_unshard_ =
      ToCsv(plan_.ranks).find("UNSHARD") != std::string::npos;
  std::vector<size_t> next_;
  std::vector<std::map<Key, std::string>> held_;
  std::set<int> gathered_;
  std::map<int, int> num_gradients_;
  Results results_;
  bool broken_ = false;
};

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  Plan Mutate(Plan plan) {
    std::vector<Action>& row = plan.ranks[Below(plan.num_ranks())];
    const size_t at = Below(row.size());
    switch (Below(8)) {
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
        row[at].stage = SomeStage(plan);
        break;
      case 5:
        row[at].microbatch = SomeMicrobatch(plan);
        break;
      case 6:
        row[at].kind = static_cast<ActionKind>(1 + Below(12));
        break;
      case 7:  // differs from its plan only where an OVERLAP_F_B is hit
        row[at].backward_stage = SomeStage(plan);
        row[at].backward_microbatch = SomeMicrobatch(plan);
        break;
    }
    return plan;
  }

 private:
  int Below(size_t bound) { return static_cast<int>(random_() % bound); }
  StageIndex SomeStage(const Plan& plan) {
    return StageIndex(Below(plan.num_stages() + 2)) - 1;
  }
  MicrobatchIndex SomeMicrobatch(const Plan& plan) {
    return MicrobatchIndex(Below(plan.num_microbatches + 2)) - 1;
  }

  std::mt19937 random_;
};

struct Counts {
  int refused = 0;
  int accepted = 0;
};

// Damages `plan` in `mutants` ways.
void CheckMutants(const Plan& plan, int mutants, uint32_t& seed,
                  Counts& counts) {
  const auto expected = Executor(plan).Run();
  ASSERT_TRUE(expected.has_value()) << ToCsv(plan.ranks);
  for (int i = 0; i < mutants; ++i) {
    const Plan mutant = Mutator(++seed).Mutate(plan);
    // Whatever it is, the simulator comes to an end: an answer, or an error.
    if (!VerifyPlan(mutant).ok()) {
      ++counts.refused;
      continue;
    }
    ++counts.accepted;
    EXPECT_EQ(Executor(mutant).Run(), expected) << "seed " << seed << "\n"
                                                << ToCsv(mutant.ranks);
    EXPECT_TRUE(Simulate(mutant).ok()) << "seed " << seed;
  }
}

Counts CheckMode(PlanMode mode, int mutants_per_plan) {
  Counts counts;
  uint32_t seed = 0;
  for (const Schedule& schedule : AvailableSchedules()) {
    for (int p = 1; p <= 4; ++p) {
      for (int v = 1; v <= 3; ++v) {
        if (!CheckShape(schedule, {p, v, 1}).ok()) continue;
        for (int m : {1, 2, 5}) {
          PlanRequest request{mode, std::string(schedule.name), p, v, m};
          request.sharded = true;
          const auto plan = *CompilePlan(request);
          CheckMutants(*plan, mutants_per_plan, seed, counts);
        }
      }
    }
  }
  return counts;
}

TEST(VerifierMutationTest, ADamagedEvalIsRefusedOrDoesTheSame) {
  const Counts counts = CheckMode(PlanMode::kEval, 40);

  EXPECT_GE(counts.refused + counts.accepted, 8000);
  EXPECT_GE(counts.refused, 5000);
  EXPECT_GT(counts.accepted, 0);  // swaps of what does not depend on each other
}

TEST(VerifierMutationTest, ADamagedStepIsRefusedOrDoesTheSame) {
  const Counts counts = CheckMode(PlanMode::kStep, 60);

  EXPECT_GE(counts.refused + counts.accepted, 12000);
  EXPECT_GE(counts.refused, 8000);
  EXPECT_GT(counts.accepted, 0);
}

}  // namespace
}  // namespace pipestage
