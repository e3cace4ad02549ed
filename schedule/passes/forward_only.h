#ifndef PIPESTAGE_SCHEDULE_PASSES_FORWARD_ONLY_H_
#define PIPESTAGE_SCHEDULE_PASSES_FORWARD_ONLY_H_

#include "schedule/action.h"

namespace pipestage {

// The forwards of each row, in the row's order: what Eval keeps of a schedule.
ActionRows ForwardOnly(const ActionRows& rows);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_PASSES_FORWARD_ONLY_H_
