#include "schedule/passes/add_unshard_reshard.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

namespace pipestage {
namespace {

// A stage and where in the row it is needed next.
struct Use {
  StageIndex stage;
  size_t at = 0;
};

// For each action of `row`, the stages to be gathered when it starts, those
// needed soonest first.
std::vector<std::vector<StageIndex>> WantedStages(
    const std::vector<Action>& row, size_t max_unsharded) {
  std::vector<std::vector<StageIndex>> wanted(row.size());
  std::vector<Use> uses;  // of the whole rest of the row, soonest first
  for (size_t i = row.size(); i-- > 0;) {
    std::vector<Use> mine;
    ForEachPart(row[i], [&](const Action& part) {
      const bool known =
          std::any_of(mine.begin(), mine.end(),
                      [&](const Use& use) { return use.stage == part.stage; });
      if (!known) mine.push_back({part.stage, i});
    });
    for (const Use& use : mine) {
      std::erase_if(uses, [&](const Use& u) { return u.stage == use.stage; });
    }
    uses.insert(uses.begin(), mine.begin(), mine.end());
    for (size_t k = 0; k < uses.size(); ++k) {
      // What one action needs is taken together.
      if (k >= max_unsharded && uses[k].at != uses[k - 1].at) break;
      wanted[i].push_back(uses[k].stage);
    }
  }
  return wanted;
}

std::vector<Action> AddToRow(const std::vector<Action>& row,
                             size_t max_unsharded) {
  const auto wanted = WantedStages(row, max_unsharded);
  std::vector<Action> out;
  out.reserve(row.size() + 2);
  std::set<StageIndex> gathered;
  for (size_t i = 0; i < row.size(); ++i) {
    for (auto it = gathered.begin(); it != gathered.end();) {
      const bool keep =
          std::find(wanted[i].begin(), wanted[i].end(), *it) != wanted[i].end();
      if (!keep) out.push_back({*it, ActionKind::kReshard});
      it = keep ? std::next(it) : gathered.erase(it);
    }
    for (const StageIndex stage : wanted[i]) {
      if (gathered.insert(stage).second) {
        out.push_back({stage, ActionKind::kUnshard});
      }
    }
    out.push_back(row[i]);
  }
  for (const StageIndex stage : gathered) {
    out.push_back({stage, ActionKind::kReshard});
  }
  return out;
}

}  // namespace

ActionRows AddUnshardReshard(const ActionRows& rows, int max_unsharded) {
  ActionRows out;
  out.reserve(rows.size());
  for (const auto& row : rows) {
    out.push_back(AddToRow(row, std::max(1, max_unsharded)));
  }
  return out;
}

}  // namespace pipestage
