#include "schedule/generators/dual_pipe_v.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "schedule/generators/v_row.h"

namespace pipestage {
namespace {

// One rank's row. Full backwards and input gradients of a leg are counted
// together: each microbatch has one of them.
class DualPipeVRow {
 public:
  DualPipeVRow(const ScheduleShape& shape, int rank)
      : ranks_(shape.num_ranks),
        rank_(rank),
        count_(std::max(2 * shape.num_ranks, shape.num_microbatches)),
        row_(shape, rank) {}

  // The eight phases of the schedule.
  std::vector<Action> Make() && {
    const int before = ranks_ - rank_ - 1;  // ranks behind this one
    Repeat(2 * before, [&] { Forward(VRow::kDown); });
    Repeat(rank_ + 1, [&] {
      Forward(VRow::kDown);
      Forward(VRow::kUp);
    });
    Repeat(before, [&] {
      InputGradient(VRow::kUp);
      WeightGradient();
      Forward(VRow::kUp);
    });
    Overlapped();
    Repeat(before, [&] {
      Backward(VRow::kUp);
      Overlap(VRow::kUp, VRow::kDown);
    });
    const bool split = LastBackwards();
    Repeat(before, [&] {
      WeightGradient();
      BackwardOrInputGradient(VRow::kDown, split);
    });
    Repeat(rank_ + 1, [&] { WeightGradient(); });
    return std::move(row_).Finish();
  }

 private:
  template <typename Fn>
  static void Repeat(int times, Fn fn) {
    for (int i = 0; i < times; ++i) fn();
  }

  void Overlapped() {
    for (int i = 0; i < count_ - 2 * ranks_ + rank_ + 1; ++i) {
      if (i == 0 && rank_ == ranks_ - 1) {
        // The two stages at the turn have nothing to overlap yet.
        Forward(VRow::kDown);
        Backward(VRow::kUp);
      } else {
        Overlap(VRow::kDown, VRow::kUp);
      }
      Overlap(VRow::kUp, VRow::kDown);
    }
  }

  // Whether backwards are split from here on.
  bool LastBackwards() {
    bool split = false;
    const int half = (rank_ + 1) / 2;
    for (int i = 0; i <= rank_; ++i) {
      if (i == half && rank_ % 2 == 1) split = true;
      BackwardOrInputGradient(VRow::kUp, split);
      if (i == half && rank_ % 2 == 0) split = true;
      BackwardOrInputGradient(VRow::kDown, split);
    }
    return split;
  }

  void Forward(VRow::Leg leg) { row_.WriteNext(leg, ActionKind::kForward); }
  void Backward(VRow::Leg leg) { row_.WriteNext(leg, ActionKind::kBackward); }
  void InputGradient(VRow::Leg leg) {
    Action action =
        row_.Take(leg, ActionKind::kBackwardInput, ActionKind::kBackward);
    row_.Write(action);
    action.kind = ActionKind::kBackwardWeight;
    pending_weights_.push_back(action);
  }
  void BackwardOrInputGradient(VRow::Leg leg, bool split) {
    if (split) {
      InputGradient(leg);
    } else {
      Backward(leg);
    }
  }
  // The oldest that is pending, if there is one.
  void WeightGradient() {
    if (pending_weights_.empty()) return;
    row_.Write(pending_weights_.front());
    pending_weights_.pop_front();
  }
  void Overlap(VRow::Leg forward, VRow::Leg backward) {
    const Action first = row_.Take(forward, ActionKind::kForward);
    row_.WriteOverlap(first, row_.Take(backward, ActionKind::kBackward));
  }

  const int ranks_;
  const int rank_;
  const int count_;
  VRow row_;
  std::deque<Action> pending_weights_;
};

}  // namespace

ActionRows GenerateDualPipeV(const ScheduleShape& shape) {
  ActionRows rows;
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    rows.push_back(DualPipeVRow(shape, rank).Make());
  }
  return rows;
}

}  // namespace pipestage
