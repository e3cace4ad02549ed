#include "client/cli/status_command.h"

#include <string>

#include "CLI/CLI.hpp"
#include "base/status_macros.h"
#include "client/cli/message_json.h"
#include "client/cli/status_report.h"

namespace pipestage {
namespace {

class StatusCommand : public Command {
 public:
  CLI::App* Register(CLI::App& app) override {
    CLI::App* command =
        app.add_subcommand("status", "workers, models, queue and counters");
    command->add_option("--output", format_, "text or json")
        ->check(CLI::IsMember({"text", "json"}));
    return command;
  }

  absl::Status Run(Session& session) override {
    PIPESTAGE_ASSIGN_OR_RETURN(auto client, session.Connect());
    PIPESTAGE_ASSIGN_OR_RETURN(const v1::Status status, client->GetStatus());
    session.console.out << (format_ == "json"
                                ? MessageToJson(status).dump() + "\n"
                                : StatusText(status));
    return absl::OkStatus();
  }

 private:
  std::string format_ = "text";
};

}  // namespace

std::unique_ptr<Command> MakeStatusCommand() {
  return std::make_unique<StatusCommand>();
}

}  // namespace pipestage
