#ifndef PIPESTAGE_WORKER_PREPARED_PLAN_H_
#define PIPESTAGE_WORKER_PREPARED_PLAN_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "package/contract.h"
#include "schedule/plan.h"

namespace pipestage {

// A rank's plan joined with a model: everything about a call that depends
// neither on its sizes nor on its data, worked out once. Immutable;
// thread-safe.
class PreparedPlan {
 public:
  // An action, and where its tensors come from and go to.
  struct Action {
    pipestage::Action action;
    // SEND_F: the receiver.
    Rank peer;
    // F and RECV_F: index into receives() of the stage's input, or -1.
    int receive = -1;
    // Where an output waits for the next stage or for its send: F reads `from`
    // if it has a stage before it here and writes `to`; SEND_F reads `from`.
    // Else -1.
    int from = -1;
    int to = -1;
  };
  // A message this rank receives: the output of `stage` for `microbatch`.
  struct Receive {
    Rank from;
    StageIndex stage;
    MicrobatchIndex microbatch;
  };
  // Which model inputs a stage takes, as indices into the contract's inputs.
  struct StageArguments {
    std::vector<int> positional;  // of stage 0
    std::vector<int> keywords;
  };

  // Errors: FailedPrecondition (PLAN_INVALID) if the plan is not for this
  // model, holds anything but forwards, their sends and receives, or if an
  // input would not be there when its forward comes.
  static absl::StatusOr<std::shared_ptr<const PreparedPlan>> Create(
      const RankPlan& plan, const PackageContract& contract);

  const std::vector<Action>& actions() const { return actions_; }
  // In the order in which the plan has them.
  const std::vector<Receive>& receives() const { return receives_; }
  // The most outputs that wait here at one time.
  int num_slots() const { return num_slots_; }
  const StageArguments& arguments(StageIndex stage) const {
    return arguments_[stage.value()];
  }
  // How many stages of this rank take an input.
  const std::vector<int>& input_uses() const { return input_uses_; }
  bool has_last_stage() const { return has_last_stage_; }

 private:
  class Builder;
  PreparedPlan() = default;

  std::vector<Action> actions_;
  std::vector<Receive> receives_;
  int num_slots_ = 0;
  std::vector<StageArguments> arguments_;  // by stage
  std::vector<int> input_uses_;
  bool has_last_stage_ = false;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_PREPARED_PLAN_H_
