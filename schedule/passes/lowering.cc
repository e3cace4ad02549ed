#include "schedule/passes/lowering.h"

#include <utility>

#include "base/status_macros.h"
#include "schedule/passes/add_reduce_grad.h"
#include "schedule/passes/add_send_recv.h"
#include "schedule/passes/add_unshard_reshard.h"
#include "schedule/passes/forward_only.h"
#include "schedule/passes/merge_backward.h"

namespace pipestage {
namespace {

using Context = LoweringContext;
using Rows = absl::StatusOr<ActionRows>;

constexpr Pass kPasses[] = {
    {"forward-only", [](const Context& c) { return c.mode == PlanMode::kEval; },
     [](ActionRows rows, const Context&) -> Rows { return ForwardOnly(rows); }},
    {"merge-backward", [](const Context& c) { return c.merge_backward; },
     [](ActionRows rows, const Context&) -> Rows {
       return MergeBackward(rows);
     }},
    {"unshard-reshard",
     [](const Context& c) { return c.mode == PlanMode::kStep && c.sharded; },
     [](ActionRows rows, const Context&) -> Rows {
       return AddUnshardReshard(rows);
     }},
    {"reduce-grad", [](const Context& c) { return c.mode == PlanMode::kStep; },
     [](ActionRows rows, const Context& c) -> Rows {
       return AddReduceGrad(rows, c.num_microbatches);
     }},
    {"send-recv", [](const Context&) { return true; },
     [](ActionRows rows, const Context& c) -> Rows {
       return AddSendRecv(rows, c.stage_ranks, c.num_microbatches);
     }},
};

}  // namespace

absl::Span<const Pass> LoweringPasses() { return kPasses; }

absl::StatusOr<ActionRows> Lower(ActionRows order,
                                 const LoweringContext& context) {
  for (const Pass& pass : kPasses) {
    if (!pass.applies(context)) continue;
    PIPESTAGE_ASSIGN_OR_RETURN(order, pass.run(std::move(order), context));
  }
  return order;
}

}  // namespace pipestage
