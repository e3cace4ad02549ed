#include "schedule/passes/forward_only.h"

#include <cstddef>

namespace pipestage {

ActionRows ForwardOnly(const ActionRows& rows) {
  ActionRows forwards(rows.size());
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    for (const Action& action : rows[rank]) {
      ForEachPart(action, [&](const Action& part) {
        if (part.kind == ActionKind::kForward) forwards[rank].push_back(part);
      });
    }
  }
  return forwards;
}

}  // namespace pipestage
