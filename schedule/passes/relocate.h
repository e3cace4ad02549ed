#ifndef PIPESTAGE_SCHEDULE_PASSES_RELOCATE_H_
#define PIPESTAGE_SCHEDULE_PASSES_RELOCATE_H_

#include <vector>

#include "base/ids.h"
#include "schedule/action.h"

namespace pipestage {

// An order for stages that lie elsewhere: a rank's i-th stage under `from`
// becomes its i-th stage under `to`. Both have the same number of stages on
// each rank, and `rows` hold no messages. Whether the new order comes to an end
// is for AddSendRecv to say.
ActionRows Relocate(ActionRows rows, const std::vector<Rank>& from,
                    const std::vector<Rank>& to);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_PASSES_RELOCATE_H_
