#include "schedule/passes/forward_only.h"

#include <algorithm>
#include <iterator>

namespace pipestage {

ActionRows ForwardOnly(const ActionRows& rows) {
  ActionRows forwards(rows.size());
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    std::copy_if(rows[rank].begin(), rows[rank].end(),
                 std::back_inserter(forwards[rank]), [](const Action& action) {
                   return action.kind == ActionKind::kForward;
                 });
  }
  return forwards;
}

}  // namespace pipestage
