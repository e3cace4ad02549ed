#include "schedule/passes/add_send_recv.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

class Lowering {
 public:
  Lowering(const ActionRows& rows, const std::vector<Rank>& stage_ranks,
           int num_microbatches)
      : rows_(rows),
        stage_ranks_(stage_ranks),
        num_microbatches_(num_microbatches),
        next_(rows.size(), 0),
        lowered_(rows.size()),
        has_activation_(stage_ranks.size() * num_microbatches, false),
        has_gradient_(stage_ranks.size() * num_microbatches, false) {}

  absl::Status CheckActions() const;
  absl::StatusOr<ActionRows> Run() &&;

 private:
  int num_stages() const { return static_cast<int>(stage_ranks_.size()); }
  size_t Cell(int stage, const Action& action) const {
    return static_cast<size_t>(stage) * num_microbatches_ +
           action.microbatch.value();
  }

  // Of one part. Whether the rank has such a stage, and such a microbatch is.
  bool Fits(const Action& action, Rank rank) const;
  bool IsReady(const Action& action) const;
  // Hands on what one part has computed.
  void HandOn(size_t rank, const Action& action);
  void Place(size_t rank, const Action& action);
  // Hands what `action` computed to `to_stage`, through the network if that
  // stage is on another rank.
  void Hand(size_t rank, const Action& action, int to_stage, ActionKind send,
            ActionKind recv);
  absl::Status DescribeStall() const;

  const ActionRows& rows_;
  const std::vector<Rank>& stage_ranks_;
  const int num_microbatches_;
  std::vector<size_t> next_;  // of each rank: its first action not yet placed
  ActionRows lowered_;
  // By stage and microbatch: whether its owner has the input, or the gradient
  // of the output, or has a receive placed that brings it.
  std::vector<bool> has_activation_;
  std::vector<bool> has_gradient_;
};

absl::Status Lowering::CheckActions() const {
  for (size_t rank = 0; rank < rows_.size(); ++rank) {
    for (const Action& action : rows_[rank]) {
      bool fits = true;
      ForEachPart(action, [&](const Action& part) {
        fits &= Fits(part, Rank(static_cast<int32_t>(rank)));
      });
      if (!fits) {
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", rank, " cannot take ", ToString(action),
                         " before sends and receives are added: ", num_stages(),
                         " stages, ", num_microbatches_, " microbatches"));
      }
    }
  }
  return absl::OkStatus();
}

bool Lowering::Fits(const Action& action, Rank rank) const {
  const int stage = action.stage.value();
  const int microbatch = action.microbatch.value();
  const bool known = IsCompute(action.kind)
                         ? microbatch >= 0 && microbatch < num_microbatches_
                         : !HasMicrobatch(action.kind);
  return known && stage >= 0 && stage < num_stages() &&
         stage_ranks_[stage] == rank;
}

bool Lowering::IsReady(const Action& action) const {
  const int stage = action.stage.value();
  switch (action.kind) {
    case ActionKind::kForward:
      return stage == 0 || has_activation_[Cell(stage, action)];
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return stage == num_stages() - 1 || has_gradient_[Cell(stage, action)];
    default:
      return true;
  }
}

void Lowering::Hand(size_t rank, const Action& action, int to_stage,
                    ActionKind send, ActionKind recv) {
  const size_t receiver = stage_ranks_[to_stage].value();
  if (receiver == rank) return;
  lowered_[rank].push_back({action.stage, send, action.microbatch});
  lowered_[receiver].push_back({StageIndex(to_stage), recv, action.microbatch});
}

void Lowering::Place(size_t rank, const Action& action) {
  lowered_[rank].push_back(action);
  ForEachPart(action, [&](const Action& part) { HandOn(rank, part); });
}

void Lowering::HandOn(size_t rank, const Action& action) {
  const int stage = action.stage.value();
  if (action.kind == ActionKind::kForward && stage + 1 < num_stages()) {
    has_activation_[Cell(stage + 1, action)] = true;
    Hand(rank, action, stage + 1, ActionKind::kSendForward,
         ActionKind::kRecvForward);
  }
  if ((action.kind == ActionKind::kBackward ||
       action.kind == ActionKind::kBackwardInput) &&
      stage > 0) {
    has_gradient_[Cell(stage - 1, action)] = true;
    Hand(rank, action, stage - 1, ActionKind::kSendBackward,
         ActionKind::kRecvBackward);
  }
}

absl::Status Lowering::DescribeStall() const {
  std::string waits;
  for (size_t rank = 0; rank < rows_.size(); ++rank) {
    if (next_[rank] == rows_[rank].size()) continue;
    absl::StrAppend(&waits, waits.empty() ? "" : ", ", "rank ", rank,
                    " waits before ", ToString(rows_[rank][next_[rank]]));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the order waits for itself: ", waits));
}

absl::StatusOr<ActionRows> Lowering::Run() && {
  bool pending = true;
  while (pending) {
    bool moved = false;
    pending = false;
    for (size_t rank = 0; rank < rows_.size(); ++rank) {
      if (next_[rank] == rows_[rank].size()) continue;
      pending = true;
      const Action& action = rows_[rank][next_[rank]];
      bool ready = true;
      ForEachPart(action, [&](const Action& part) { ready &= IsReady(part); });
      if (!ready) continue;
      Place(rank, action);
      ++next_[rank];
      moved = true;
    }
    if (pending && !moved) return DescribeStall();
  }
  return std::move(lowered_);
}

}  // namespace

absl::StatusOr<ActionRows> AddSendRecv(const ActionRows& rows,
                                       const std::vector<Rank>& stage_ranks,
                                       int num_microbatches) {
  Lowering lowering(rows, stage_ranks, num_microbatches);
  PIPESTAGE_RETURN_IF_ERROR(lowering.CheckActions());
  return std::move(lowering).Run();
}

}  // namespace pipestage
