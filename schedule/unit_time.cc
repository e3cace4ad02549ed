#include "schedule/unit_time.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

class UnitTimeSimulation {
 public:
  explicit UnitTimeSimulation(const Plan& plan)
      : plan_(plan),
        next_(plan.num_ranks(), 0),
        forward_end_(NumCells(), kNotYet),
        backward_end_(NumCells(), kNotYet) {
    times_.ranks.resize(plan.num_ranks());
  }

  absl::StatusOr<UnitTimes> Run() && {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
        while (TakeOne(rank)) moved = true;
      }
    }
    for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
      if (next_[rank] == plan_.ranks[rank].size()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the plan waits for itself: rank ", rank, " at ",
                       ToString(plan_.ranks[rank][next_[rank]])));
    }
    return std::move(times_);
  }

 private:
  static constexpr int kNotYet = -1;

  size_t NumCells() const {
    return static_cast<size_t>(plan_.num_stages()) * plan_.num_microbatches;
  }
  size_t Cell(int stage, const Action& action) const {
    return static_cast<size_t>(stage) * plan_.num_microbatches +
           action.microbatch.value();
  }

  // When the data of `action` is there; kNotYet if that is not known yet.
  int DataReady(const Action& action) const {
    const int stage = action.stage.value();
    switch (action.kind) {
      case ActionKind::kForward:
        return stage == 0 ? 0 : forward_end_[Cell(stage - 1, action)];
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        return stage == plan_.num_stages() - 1
                   ? forward_end_[Cell(stage, action)]
                   : backward_end_[Cell(stage + 1, action)];
      default:
        return 0;
    }
  }

  // Takes the next action of `rank` if its start is known.
  bool TakeOne(int rank) {
    if (next_[rank] == plan_.ranks[rank].size()) return false;
    const Action& action = plan_.ranks[rank][next_[rank]];
    if (IsCompute(action.kind)) {
      const int ready = DataReady(action);
      if (ready == kNotYet) return false;
      std::vector<UnitTimes::Step>& steps = times_.ranks[rank];
      const int free = steps.empty() ? 0 : steps.back().start + 1;
      Record(steps, action, std::max(free, ready));
    }
    ++next_[rank];
    return true;
  }

  void Record(std::vector<UnitTimes::Step>& steps, const Action& action,
              int start) {
    steps.push_back({action, start});
    times_.num_steps = std::max(times_.num_steps, start + 1);
    const size_t cell = Cell(action.stage.value(), action);
    if (action.kind == ActionKind::kForward) {
      forward_end_[cell] = start + 1;
    } else if (action.kind != ActionKind::kBackwardWeight) {
      backward_end_[cell] = start + 1;
    }
  }

  const Plan& plan_;
  std::vector<size_t> next_;
  std::vector<int> forward_end_;   // by stage and microbatch
  std::vector<int> backward_end_;  // of B or I
  UnitTimes times_;
};

}  // namespace

absl::StatusOr<UnitTimes> SimulateUnitTime(const Plan& plan) {
  return UnitTimeSimulation(plan).Run();
}

}  // namespace pipestage
