#include "schedule/passes/compute_only.h"

#include <vector>

namespace pipestage {

ActionRows ComputeOnly(ActionRows rows) {
  for (auto& row : rows) {
    std::erase_if(row,
                  [](const Action& action) { return !IsCompute(action.kind); });
  }
  return rows;
}

}  // namespace pipestage
