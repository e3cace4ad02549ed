#ifndef PIPESTAGE_SCHEDULE_GENERATORS_V_ROW_H_
#define PIPESTAGE_SCHEDULE_GENERATORS_V_ROW_H_

#include <array>
#include <utility>
#include <vector>

#include "schedule/generators/schedule_shape.h"

namespace pipestage {

// A rank's row while a V schedule writes it: the rank's stage on the way down,
// its stage on the way up, and for each of them and each kind the microbatch
// that comes next. Actions for microbatches that a call does not have are
// counted and left out.
class VRow {
 public:
  enum Leg { kDown = 0, kUp = 1 };

  VRow(const ScheduleShape& shape, int rank)
      : num_microbatches_(shape.num_microbatches),
        stages_{rank, 2 * shape.num_ranks - 1 - rank} {}

  // How many have been written, or left out.
  int Count(Leg leg, ActionKind kind) const {
    return next_[leg][static_cast<int>(kind)];
  }

  // The next action of this kind, without writing it. A backward is counted by
  // `counted_as`.
  Action Take(Leg leg, ActionKind kind, ActionKind counted_as) {
    const int m = next_[leg][static_cast<int>(counted_as)]++;
    return {StageIndex(stages_[leg]), kind, MicrobatchIndex(m)};
  }
  Action Take(Leg leg, ActionKind kind) { return Take(leg, kind, kind); }

  void Write(const Action& action) {
    if (IsThere(action.microbatch)) actions_.push_back(action);
  }
  void WriteNext(Leg leg, ActionKind kind) { Write(Take(leg, kind)); }

  // Both in one, or the one of them that is there.
  void WriteOverlap(const Action& forward, const Action& backward) {
    if (!IsThere(forward.microbatch) || !IsThere(backward.microbatch)) {
      Write(forward);
      Write(backward);
      return;
    }
    actions_.push_back({forward.stage, ActionKind::kOverlapForwardBackward,
                        forward.microbatch, backward.stage,
                        backward.microbatch});
  }

  std::vector<Action> Finish() && { return std::move(actions_); }

 private:
  bool IsThere(MicrobatchIndex m) const {
    return m.value() < num_microbatches_;
  }

  const int num_microbatches_;
  const std::array<int, 2> stages_;
  // By leg and kind; kinds start at 1.
  std::array<std::array<int, 16>, 2> next_ = {};
  std::vector<Action> actions_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_GENERATORS_V_ROW_H_
