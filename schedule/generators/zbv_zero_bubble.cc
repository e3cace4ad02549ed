#include "schedule/generators/zbv_zero_bubble.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "schedule/generators/v_row.h"

namespace pipestage {
namespace {

constexpr auto kF = ActionKind::kForward;
constexpr auto kI = ActionKind::kBackwardInput;
constexpr auto kW = ActionKind::kBackwardWeight;

class ZbvRow {
 public:
  ZbvRow(const ScheduleShape& shape, int rank)
      : ranks_(shape.num_ranks),
        rank_(rank),
        // The pattern needs so many; the row leaves out those beyond M.
        count_(std::max(2 * shape.num_ranks - 1, shape.num_microbatches)),
        row_(shape, rank) {}

  std::vector<Action> Make() && {
    WarmUp();
    Steady();
    CoolDown();
    return std::move(row_).Finish();
  }

 private:
  void WarmUp() {
    for (int i = 0; i < 2 * (ranks_ - rank_) - 1; ++i) Write(VRow::kDown, {kF});
    for (int i = 0; i < rank_; ++i) {
      Write(VRow::kUp, {kF});
      Write(VRow::kDown, {kF});
    }
    for (int i = 0; i < ranks_ - rank_; ++i) Write(VRow::kUp, {kF, kI, kW});
  }

  void Steady() {
    while (row_.Count(VRow::kUp, kF) < row_.Count(VRow::kDown, kF) ||
           row_.Count(VRow::kDown, kF) < count_) {
      if (row_.Count(VRow::kDown, kF) < count_) Write(VRow::kDown, {kF});
      Write(VRow::kDown, {kI, kW});
      Write(VRow::kUp, {kF, kI, kW});
    }
  }

  void CoolDown() {
    for (int i = 0; i < rank_; ++i) {
      Write(VRow::kDown, {kI});
      Write(VRow::kUp, {kI});
    }
    for (int i = 0; i < ranks_ - rank_; ++i) Write(VRow::kDown, {kI, kW});
    for (const VRow::Leg leg : {VRow::kUp, VRow::kDown}) {
      while (row_.Count(leg, kW) < row_.Count(leg, kI)) Write(leg, {kW});
    }
  }

  void Write(VRow::Leg leg, std::initializer_list<ActionKind> kinds) {
    for (const ActionKind kind : kinds) row_.WriteNext(leg, kind);
  }

  const int ranks_;
  const int rank_;
  const int count_;
  VRow row_;
};

}  // namespace

ActionRows GenerateZbvZeroBubble(const ScheduleShape& shape) {
  ActionRows rows;
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    rows.push_back(ZbvRow(shape, rank).Make());
  }
  return rows;
}

}  // namespace pipestage
