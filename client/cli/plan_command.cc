#include "client/cli/plan_command.h"

#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "schedule/compiler.h"
#include "schedule/render/grid.h"

namespace pipestage {
namespace {

class PlanCommand : public Command {
 public:
  CLI::App* Register(CLI::App& app) override {
    CLI::App* command = app.add_subcommand(
        "plan", "draw what an Eval would run, each forward taking one step");
    command->add_option("--schedule", request_.schedule, "1F1B, GPipe, ...");
    command->add_option("--workers", request_.num_ranks)->required();
    command->add_option("--stages-per-worker", request_.stages_per_rank);
    command->add_option("--microbatches", request_.num_microbatches)
        ->required();
    command->add_flag("--csv", csv_,
                      "print each rank's actions instead, as PyTorch's CSV");
    return command;
  }

  absl::Status Run(Session& session) override {
    PIPESTAGE_ASSIGN_OR_RETURN(const auto plan, CompilePlan(request_));
    if (csv_) {
      session.console.out << ToCsv(plan->ranks);
      return absl::OkStatus();
    }
    PIPESTAGE_ASSIGN_OR_RETURN(const std::string grid, DrawPlan(*plan));
    session.console.out << absl::StrCat(
        plan->schedule, ", ", plan->num_ranks(), " workers, ",
        plan->num_stages(), " stages, ", plan->num_microbatches,
        " microbatches; plan ", plan->id, "\n", grid);
    return absl::OkStatus();
  }

 private:
  PlanRequest request_;
  bool csv_ = false;
};

}  // namespace

std::unique_ptr<Command> MakePlanCommand() {
  return std::make_unique<PlanCommand>();
}

}  // namespace pipestage
