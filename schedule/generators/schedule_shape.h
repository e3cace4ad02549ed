#ifndef PIPESTAGE_SCHEDULE_GENERATORS_SCHEDULE_SHAPE_H_
#define PIPESTAGE_SCHEDULE_GENERATORS_SCHEDULE_SHAPE_H_

#include "base/ids.h"
#include "schedule/action.h"

namespace pipestage {

// The numbers a schedule is generated for, each at least 1.
struct ScheduleShape {
  int num_ranks = 1;         // P
  int stages_per_rank = 1;   // V
  int num_microbatches = 1;  // M

  // The i-th stage of `rank` under looped placement.
  int Stage(int rank, int i) const { return i * num_ranks + rank; }
};

inline Action ForwardOf(int stage, int microbatch) {
  return {StageIndex(stage), ActionKind::kForward, MicrobatchIndex(microbatch)};
}
inline Action BackwardOf(int stage, int microbatch) {
  return {StageIndex(stage), ActionKind::kBackward,
          MicrobatchIndex(microbatch)};
}

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_GENERATORS_SCHEDULE_SHAPE_H_
