#include "schedule/passes/add_reduce_grad.h"

#include <map>
#include <vector>

namespace pipestage {
namespace {

bool EndsWeightGradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight;
}

std::vector<Action> AddToRow(const std::vector<Action>& row,
                             int num_microbatches) {
  std::vector<Action> out;
  out.reserve(row.size() + 2);
  std::map<StageIndex, int> done;
  for (const Action& action : row) {
    out.push_back(action);
    ForEachPart(action, [&](const Action& part) {
      if (EndsWeightGradient(part.kind) &&
          ++done[part.stage] == num_microbatches) {
        out.push_back({part.stage, ActionKind::kReduceGrad});
      }
    });
  }
  return out;
}

}  // namespace

ActionRows AddReduceGrad(const ActionRows& rows, int num_microbatches) {
  ActionRows out;
  out.reserve(rows.size());
  for (const auto& row : rows) out.push_back(AddToRow(row, num_microbatches));
  return out;
}

}  // namespace pipestage
