#ifndef PIPESTAGE_SCHEDULE_UNIT_TIME_H_
#define PIPESTAGE_SCHEDULE_UNIT_TIME_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedule/plan.h"

namespace pipestage {

// The start of each compute action of each rank when every one takes one step,
// moving data takes none, and each starts as soon as its rank is free and its
// data is there. Other actions are passed over.
struct UnitTimes {
  struct Step {
    Action action;
    int start = 0;
  };
  std::vector<std::vector<Step>> ranks;
  int num_steps = 0;  // from the first start to the last end
};

// InvalidArgument if the plan waits for itself; a verified plan never does.
absl::StatusOr<UnitTimes> SimulateUnitTime(const Plan& plan);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_UNIT_TIME_H_
