#include "schedule/passes/merge_backward.h"

#include <cstddef>
#include <vector>

namespace pipestage {
namespace {

bool AreHalvesOfOne(const Action& first, const Action& second) {
  return first.kind == ActionKind::kBackwardInput &&
         second.kind == ActionKind::kBackwardWeight &&
         first.stage == second.stage && first.microbatch == second.microbatch;
}

std::vector<Action> MergeRow(const std::vector<Action>& row) {
  std::vector<Action> out;
  out.reserve(row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    if (i + 1 < row.size() && AreHalvesOfOne(row[i], row[i + 1])) {
      out.push_back({row[i].stage, ActionKind::kBackward, row[i].microbatch});
      ++i;
    } else {
      out.push_back(row[i]);
    }
  }
  return out;
}

}  // namespace

ActionRows MergeBackward(const ActionRows& rows) {
  ActionRows out;
  out.reserve(rows.size());
  for (const auto& row : rows) out.push_back(MergeRow(row));
  return out;
}

}  // namespace pipestage
