#ifndef PIPESTAGE_WORKER_PREPARED_CALL_H_
#define PIPESTAGE_WORKER_PREPARED_CALL_H_

#include <memory>
#include <vector>

#include "base/ids.h"
#include "schedule/plan.h"
#include "worker/call_inbox.h"
#include "worker/call_shapes.h"
#include "worker/loaded_model.h"
#include "worker/prepared_plan.h"
#include "worker/receive_window.h"

namespace pipestage {

// What a call wants back.
struct CallWishes {
  std::vector<int> outputs;  // indices into the model's outputs
  bool with_loss = false;
  bool row_losses = false;
  bool timeline = false;
  bool report_progress = false;
};

// One call, with everything its execution needs looked up. Plain data.
struct PreparedCall {
  Generation generation;
  std::shared_ptr<CallInbox> inbox;
  std::shared_ptr<const RankPlan> plan;
  std::shared_ptr<const LoadedModel> model;
  std::shared_ptr<const PreparedPlan> prepared;
  std::shared_ptr<const CallShapes> shapes;
  CallWishes wishes;
  // Its receives, by index; set by PlanExecutor::Announce.
  std::vector<ReceiveWindow::Ticket> tickets;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_PREPARED_CALL_H_
