#include "worker/prepared_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

absl::Status Invalid(absl::string_view what) {
  return WithReason(absl::FailedPreconditionError(absl::StrCat("plan: ", what)),
                    reason::kPlanInvalid);
}

}  // namespace

// Walks a plan as the executor will, keeping track of what is where.
class PreparedPlan::Builder {
 public:
  Builder(const RankPlan& plan, const PackageContract& contract)
      : plan_(plan),
        contract_(contract),
        prepared_(new PreparedPlan()),
        cells_(static_cast<size_t>(plan.num_stages()) * plan.num_microbatches) {
  }

  absl::StatusOr<std::shared_ptr<const PreparedPlan>> Build() && {
    if (plan_.num_stages() != contract_.stages.size()) {
      return Invalid(absl::StrCat(
          "it has ", plan_.num_stages(), " stages; model ", contract_.name, "@",
          contract_.version, " has ", contract_.stages.size()));
    }
    PIPESTAGE_RETURN_IF_ERROR(FindArguments());
    for (const pipestage::Action& action : plan_.actions) {
      PIPESTAGE_RETURN_IF_ERROR(Add(action));
    }
    PIPESTAGE_RETURN_IF_ERROR(CheckNothingIsLeft());
    return std::shared_ptr<const PreparedPlan>(std::move(prepared_));
  }

 private:
  // What is known of a stage and microbatch.
  struct Cell {
    int receive = -1;  // its input comes by this receive
    bool computed = false;
    int slot = -1;  // its output waits here
  };

  Cell& At(StageIndex stage, MicrobatchIndex m) {
    return cells_[stage.value() * plan_.num_microbatches + m.value()];
  }
  bool IsHere(StageIndex stage) const {
    return plan_.owner(stage) == plan_.rank;
  }
  bool IsLast(StageIndex stage) const {
    return stage.value() + 1 == plan_.num_stages();
  }

  absl::Status FindArguments() {
    prepared_->input_uses_.assign(contract_.inputs.size(), 0);
    for (const StageContract& stage : contract_.stages) {
      StageArguments& arguments = prepared_->arguments_.emplace_back();
      if (stage.index.value() == 0) {
        for (const TensorContract& input : stage.inputs) {
          PIPESTAGE_RETURN_IF_ERROR(
              AddArgument(input.name, stage.index, arguments.positional));
        }
      }
      for (const std::string& name : stage.keyword_inputs) {
        PIPESTAGE_RETURN_IF_ERROR(
            AddArgument(name, stage.index, arguments.keywords));
      }
    }
    prepared_->has_last_stage_ = IsHere(StageIndex(plan_.num_stages() - 1));
    return absl::OkStatus();
  }

  absl::Status AddArgument(const std::string& name, StageIndex stage,
                           std::vector<int>& arguments) {
    const std::optional<int> index = contract_.InputIndex(name);
    if (!index.has_value()) {
      return Invalid(absl::StrCat("stage ", stage.value(), " takes '", name,
                                  "', which is no input of the model"));
    }
    arguments.push_back(*index);
    if (IsHere(stage)) ++prepared_->input_uses_[*index];
    return absl::OkStatus();
  }

  absl::Status Add(const pipestage::Action& action) {
    if (!IsHere(action.stage)) {
      return Invalid(absl::StrCat(ToString(action), " is for rank ",
                                  plan_.owner(action.stage).value(),
                                  "; this is rank ", plan_.rank.value()));
    }
    switch (action.kind) {
      case ActionKind::kForward:
        return AddForward(action);
      case ActionKind::kSendForward:
        return AddSend(action);
      case ActionKind::kRecvForward:
        return AddReceive(action);
      default:
        return Invalid(
            absl::StrCat(ToString(action), " has no place in an Eval"));
    }
  }

  absl::Status AddForward(const pipestage::Action& action) {
    Cell& cell = At(action.stage, action.microbatch);
    if (cell.computed) return Invalid(ToString(action) + " comes twice");
    Action prepared = {.action = action, .peer = plan_.rank};
    if (action.stage.value() > 0) {
      PIPESTAGE_RETURN_IF_ERROR(FindInput(action, prepared));
    }
    cell.computed = true;
    if (!IsLast(action.stage)) cell.slot = prepared.to = TakeSlot();
    prepared_->actions_.push_back(prepared);
    return absl::OkStatus();
  }

  absl::Status FindInput(const pipestage::Action& action, Action& prepared) {
    const StageIndex before = action.stage - 1;
    if (!IsHere(before)) {
      prepared.receive = At(action.stage, action.microbatch).receive;
      if (prepared.receive >= 0) return absl::OkStatus();
    } else if (Cell& source = At(before, action.microbatch); source.slot >= 0) {
      prepared.from = FreeSlot(source);
      return absl::OkStatus();
    }
    return Invalid(ToString(action) + " comes before its input is there");
  }

  absl::Status AddSend(const pipestage::Action& action) {
    if (IsLast(action.stage) || IsHere(action.stage + 1)) {
      return Invalid(ToString(action) + " has no receiver");
    }
    Cell& cell = At(action.stage, action.microbatch);
    if (cell.slot < 0) {
      return Invalid(ToString(action) + " has nothing to send");
    }
    Action prepared = {.action = action, .peer = plan_.owner(action.stage + 1)};
    prepared.from = FreeSlot(cell);
    prepared_->actions_.push_back(prepared);
    return absl::OkStatus();
  }

  absl::Status AddReceive(const pipestage::Action& action) {
    Cell& cell = At(action.stage, action.microbatch);
    if (action.stage.value() == 0 || IsHere(action.stage - 1)) {
      return Invalid(ToString(action) + " has no sender");
    }
    if (cell.receive >= 0) return Invalid(ToString(action) + " comes twice");
    const StageIndex before = action.stage - 1;
    cell.receive = static_cast<int>(prepared_->receives_.size());
    prepared_->receives_.push_back(
        {plan_.owner(before), before, action.microbatch});
    Action prepared = {.action = action, .peer = plan_.owner(before)};
    prepared.receive = cell.receive;
    prepared_->actions_.push_back(prepared);
    return absl::OkStatus();
  }

  int TakeSlot() {
    if (free_slots_.empty()) return prepared_->num_slots_++;
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  int FreeSlot(Cell& cell) {
    free_slots_.push_back(cell.slot);
    return std::exchange(cell.slot, -1);
  }

  absl::Status CheckNothingIsLeft() {
    for (int s = 0; s < plan_.num_stages(); ++s) {
      for (int m = 0; m < plan_.num_microbatches; ++m) {
        const Cell& cell = At(StageIndex(s), MicrobatchIndex(m));
        if (!IsHere(StageIndex(s))) continue;
        if (!cell.computed) {
          return Invalid(absl::StrCat(s, "F", m, " is missing"));
        }
        if (cell.slot >= 0) {
          return Invalid(
              absl::StrCat("the output of ", s, "F", m, " goes nowhere"));
        }
      }
    }
    return absl::OkStatus();
  }

  const RankPlan& plan_;
  const PackageContract& contract_;
  std::unique_ptr<PreparedPlan> prepared_;
  std::vector<Cell> cells_;  // by stage, then microbatch
  std::vector<int> free_slots_;
};

absl::StatusOr<std::shared_ptr<const PreparedPlan>> PreparedPlan::Create(
    const RankPlan& plan, const PackageContract& contract) {
  return Builder(plan, contract).Build();
}

}  // namespace pipestage
