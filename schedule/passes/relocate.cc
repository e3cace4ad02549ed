#include "schedule/passes/relocate.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace pipestage {
namespace {

// Of each rank, its stages in ascending order.
std::vector<std::vector<StageIndex>> StagesByRank(
    const std::vector<Rank>& owners, size_t num_ranks) {
  std::vector<std::vector<StageIndex>> stages(num_ranks);
  for (size_t s = 0; s < owners.size(); ++s) {
    stages[owners[s].value()].push_back(StageIndex(static_cast<int32_t>(s)));
  }
  return stages;
}

}  // namespace

ActionRows Relocate(ActionRows rows, const std::vector<Rank>& from,
                    const std::vector<Rank>& to) {
  if (from == to) return rows;
  const auto old_stages = StagesByRank(from, rows.size());
  const auto new_stages = StagesByRank(to, rows.size());
  std::vector<StageIndex> renamed(from.size());
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    for (size_t i = 0; i < old_stages[rank].size(); ++i) {
      renamed[old_stages[rank][i].value()] = new_stages[rank][i];
    }
  }
  for (auto& row : rows) {
    for (Action& action : row) {
      action.stage = renamed[action.stage.value()];
      if (action.backward_stage.value() >= 0) {
        action.backward_stage = renamed[action.backward_stage.value()];
      }
    }
  }
  return rows;
}

}  // namespace pipestage
