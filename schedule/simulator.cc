#include "schedule/simulator.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

constexpr int64_t kNotYet = -1;
constexpr int64_t kMaxCost = 1'000'000'000'000;

absl::Status CheckCosts(const Plan& plan, const Costs& costs) {
  if (costs.stages.size() != 1 &&
      costs.stages.size() != static_cast<size_t>(plan.num_stages())) {
    return absl::InvalidArgumentError(
        absl::StrCat("costs are given for ", costs.stages.size(),
                     " stages; the plan has ", plan.num_stages()));
  }
  const auto check = [](absl::string_view what, int64_t cost) {
    if (cost >= 0 && cost <= kMaxCost) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the cost of a ", what,
                                                   " is ", cost, "; 0 to ",
                                                   kMaxCost, " it may be"));
  };
  for (const StageCosts& stage : costs.stages) {
    PIPESTAGE_RETURN_IF_ERROR(check("forward", stage.forward));
    PIPESTAGE_RETURN_IF_ERROR(check("backward", stage.backward));
    PIPESTAGE_RETURN_IF_ERROR(check("input gradient", stage.backward_input));
    PIPESTAGE_RETURN_IF_ERROR(check("weight gradient", stage.backward_weight));
  }
  return check("message", costs.message);
}

int64_t CostOf(const StageCosts& costs, ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return costs.forward;
    case ActionKind::kBackward:
      return costs.backward;
    case ActionKind::kBackwardInput:
      return costs.backward_input;
    case ActionKind::kBackwardWeight:
      return costs.backward_weight;
    default:
      return 0;
  }
}

bool MakesInputGradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput;
}
bool EndsBackward(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight;
}

// One event at a time: a rank runs on until data is missing, and is taken up
// again when that is made.
class Run {
 public:
  Run(const Plan& plan, const Costs& costs)
      : plan_(plan),
        costs_(costs),
        next_(plan.num_ranks()),
        is_ready_(plan.num_ranks(), true),
        forward_end_(NumCells(), kNotYet),
        gradient_end_(NumCells(), kNotYet) {
    timeline_.ranks.resize(plan.num_ranks());
    for (int rank = plan.num_ranks(); rank-- > 0;) ready_.push_back(rank);
  }

  absl::StatusOr<Timeline> Finish() && {
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      is_ready_[rank] = false;
      while (!HasEnded(rank) && TakeOne(rank)) {
      }
    }
    PIPESTAGE_RETURN_IF_ERROR(CheckAllEnded());
    return std::move(timeline_);
  }

 private:
  // The next action of a rank, and which part of it.
  struct Next {
    size_t action = 0;
    int part = 0;
  };

  size_t NumCells() const {
    return static_cast<size_t>(plan_.num_stages()) * plan_.num_microbatches;
  }
  size_t Cell(int stage, const Action& action) const {
    return static_cast<size_t>(stage) * plan_.num_microbatches +
           action.microbatch.value();
  }
  bool HasEnded(int rank) const {
    return next_[rank].action == plan_.ranks[rank].size();
  }
  int Owner(int stage) const { return plan_.stage_ranks[stage].value(); }

  // When what `from` made is where `to` is; kNotYet if it is not made.
  int64_t Arrival(const std::vector<int64_t>& made, int from, int to,
                  const Action& action) const {
    const int64_t end = made[Cell(from, action)];
    if (end == kNotYet) return kNotYet;
    return end + (Owner(from) == Owner(to) ? 0 : costs_.message);
  }

  // When the data of `part` is there.
  int64_t DataReady(const Action& part) const {
    const int stage = part.stage.value();
    if (part.kind == ActionKind::kForward) {
      return stage == 0 ? 0 : Arrival(forward_end_, stage - 1, stage, part);
    }
    if (MakesInputGradient(part.kind)) {
      return stage == plan_.num_stages() - 1
                 ? Arrival(forward_end_, stage, stage, part)
                 : Arrival(gradient_end_, stage + 1, stage, part);
    }
    return 0;  // what it needs is on its own rank, and before it
  }

  // Takes the next part of `rank` if its start is known.
  bool TakeOne(int rank) {
    Next& next = next_[rank];
    const Action& action = plan_.ranks[rank][next.action];
    int index = 0;
    int num_parts = 0;
    Action part;
    ForEachPart(action, [&](const Action& each) {
      if (index++ == next.part) part = each;
      ++num_parts;
    });
    if (IsCompute(part.kind) && !Compute(rank, part)) return false;
    if (++next.part == num_parts) next = {next.action + 1, 0};
    return true;
  }

  bool Compute(int rank, const Action& part) {
    const int64_t ready = DataReady(part);
    if (ready == kNotYet) return false;
    std::vector<Timeline::Span>& spans = timeline_.ranks[rank];
    const int64_t free = spans.empty() ? 0 : spans.back().end;
    const int64_t start = std::max(free, ready);
    const int64_t end = start + CostOf(costs_.of(part.stage), part.kind);
    spans.push_back({part, start, end});
    timeline_.makespan = std::max(timeline_.makespan, end);
    HandOn(part, end);
    return true;
  }

  void HandOn(const Action& part, int64_t end) {
    const int stage = part.stage.value();
    if (part.kind == ActionKind::kForward) {
      forward_end_[Cell(stage, part)] = end;
      Wake(stage + 1);
    } else if (MakesInputGradient(part.kind)) {
      gradient_end_[Cell(stage, part)] = end;
      Wake(stage - 1);
    }
  }

  void Wake(int stage) {
    if (stage < 0 || stage >= plan_.num_stages()) return;
    const int rank = Owner(stage);
    if (is_ready_[rank]) return;
    is_ready_[rank] = true;
    ready_.push_back(rank);
  }

  absl::Status CheckAllEnded() const {
    std::string waits;
    for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
      if (HasEnded(rank)) continue;
      absl::StrAppend(&waits, waits.empty() ? "" : ", ", "rank ", rank, " at ",
                      ToString(plan_.ranks[rank][next_[rank].action]));
    }
    if (waits.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the plan waits for itself: ", waits));
  }

  const Plan& plan_;
  const Costs& costs_;
  std::vector<Next> next_;
  std::vector<bool> is_ready_;
  std::vector<int> ready_;
  std::vector<int64_t> forward_end_;   // by stage and microbatch
  std::vector<int64_t> gradient_end_;  // of B or I
  Timeline timeline_;
};

// A change of how many activations a rank holds.
struct Change {
  int64_t time;
  int by;

  // What is let go of at a time makes room for what comes at that time.
  bool operator<(const Change& other) const {
    return std::pair(time, by) < std::pair(other.time, other.by);
  }
};

int64_t Peak(std::vector<Change> changes) {
  std::sort(changes.begin(), changes.end());
  int64_t held = 0;
  int64_t peak = 0;
  for (const Change& change : changes) {
    held += change.by;
    peak = std::max(peak, held);
  }
  return peak;
}

// By rank. In a Step, from a forward's start to its backward's end; in an Eval,
// from the end of the stage before to the forward's end.
std::vector<std::vector<Change>> ActivationChanges(const Plan& plan,
                                                   const Costs& costs,
                                                   const Timeline& timeline) {
  std::vector<std::vector<Change>> changes(plan.num_ranks());
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    for (const Timeline::Span& span : timeline.ranks[rank]) {
      const int stage = span.action.stage.value();
      if (plan.mode == PlanMode::kStep) {
        if (span.action.kind == ActionKind::kForward) {
          changes[rank].push_back({span.start, +1});
        } else if (EndsBackward(span.action.kind)) {
          changes[rank].push_back({span.end, -1});
        }
        continue;
      }
      if (stage > 0) changes[rank].push_back({span.end, -1});
      if (stage + 1 == plan.num_stages()) continue;
      const int consumer = plan.stage_ranks[stage + 1].value();
      const int64_t arrival = span.end + (consumer == rank ? 0 : costs.message);
      changes[consumer].push_back({arrival, +1});
    }
  }
  return changes;
}

int64_t CountSends(const std::vector<Action>& row) {
  return std::count_if(row.begin(), row.end(), [](const Action& action) {
    return action.kind == ActionKind::kSendForward ||
           action.kind == ActionKind::kSendBackward;
  });
}

int64_t BusyTime(const std::vector<Timeline::Span>& spans) {
  int64_t busy = 0;
  for (const Timeline::Span& span : spans) busy += span.end - span.start;
  return busy;
}

}  // namespace

int64_t Simulation::peak_activations() const {
  int64_t peak = 0;
  for (const RankUse& rank : ranks) {
    peak = std::max(peak, rank.peak_activations);
  }
  return peak;
}

double Simulation::bubble_ratio() const {
  const int64_t total = busy + bubble;
  return total == 0 ? 0
                    : static_cast<double>(bubble) / static_cast<double>(total);
}

absl::StatusOr<Simulation> Simulate(const Plan& plan, const Costs& costs) {
  PIPESTAGE_RETURN_IF_ERROR(CheckCosts(plan, costs));
  Simulation result;
  PIPESTAGE_ASSIGN_OR_RETURN(result.timeline, Run(plan, costs).Finish());
  auto changes = ActivationChanges(plan, costs, result.timeline);
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    Simulation::RankUse use;
    use.busy = BusyTime(result.timeline.ranks[rank]);
    use.bubble = result.makespan() - use.busy;
    use.peak_activations = Peak(std::move(changes[rank]));
    use.messages_sent = CountSends(plan.ranks[rank]);
    result.busy += use.busy;
    result.bubble += use.bubble;
    result.messages += use.messages_sent;
    result.ranks.push_back(use);
  }
  result.bytes = result.messages * costs.message_bytes;
  return result;
}

}  // namespace pipestage
