#ifndef PIPESTAGE_SCHEDULE_PASSES_LOWERING_H_
#define PIPESTAGE_SCHEDULE_PASSES_LOWERING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "schedule/action.h"
#include "schedule/plan.h"

namespace pipestage {

// What the passes are told.
struct LoweringContext {
  const std::vector<Rank>& stage_ranks;  // owner of each stage
  int num_microbatches = 0;
  PlanMode mode = PlanMode::kEval;
  // Whether parameters are sharded over data-parallel replicas, as FSDP does,
  // and must be gathered. Ours are not; PyTorch always lowers as if they were.
  bool sharded = false;
  bool merge_backward = false;  // one B where I and W follow each other
};

// One rewriting of an order: rows in, rows out.
struct Pass {
  absl::string_view name;
  bool (*applies)(const LoweringContext& context);
  absl::StatusOr<ActionRows> (*run)(ActionRows rows,
                                    const LoweringContext& context);
};

// All of them, in the order in which they are applied. To add one: its file
// pair, and its line in lowering.cc.
absl::Span<const Pass> LoweringPasses();

// From an order of compute to what each rank executes: applies the passes that
// apply. The errors of AddSendRecv.
absl::StatusOr<ActionRows> Lower(ActionRows order,
                                 const LoweringContext& context);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_PASSES_LOWERING_H_
