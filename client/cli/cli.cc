#include "client/cli/cli.h"

#include <algorithm>
#include <memory>

#include "CLI/CLI.hpp"
#include "base/flag_checks.h"
#include "client/cli/error_text.h"
#include "client/cli/eval_command.h"
#include "client/cli/models_command.h"
#include "client/cli/plan_command.h"
#include "client/cli/status_command.h"
#include "client/cli/up_command.h"

namespace pipestage {
namespace {

constexpr char kDefaultAddress[] = "127.0.0.1:7070";

struct Entry {
  std::unique_ptr<Command> command;
  CLI::App* app = nullptr;
};

std::vector<Entry> RegisterAll(CLI::App& app) {
  std::vector<Entry> entries;
  for (auto make : {MakeUpCommand, MakeEvalCommand, MakeModelsCommand,
                    MakeStatusCommand, MakePlanCommand}) {
    Entry entry;
    entry.command = make();
    entry.app = entry.command->Register(app);
    entry.app->fallthrough();  // --address may stand after the subcommand
    entries.push_back(std::move(entry));
  }
  return entries;
}

// Splits what follows "--" off `arguments`.
std::vector<std::string> TakeAfterDashes(std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes == arguments.end()) return {};
  std::vector<std::string> after(dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());
  return after;
}

int Execute(Command& command, Session& session) {
  const absl::Status status = command.Run(session);
  session.console.out << std::flush;
  if (status.ok() && !session.console.out.good()) {
    session.console.err << "pipestage: the result could not be written to "
                           "standard output\n"
                        << std::flush;
    return kExitFailed;
  }
  if (status.ok()) return kExitOk;
  session.console.err << ErrorText(status, session.address) << std::flush;
  return kExitFailed;
}

}  // namespace

int RunCli(const std::vector<std::string>& arguments, Console& console) {
  CLI::App app("Runs models that are cut into stages across workers.",
               "pipestage");
  app.require_subcommand(1);
  std::string address = console.address_from_environment.empty()
                            ? kDefaultAddress
                            : console.address_from_environment;
  app.add_option("--address", address,
                 "of the coordinator; or set PIPESTAGE_ADDRESS")
      ->capture_default_str();
  double timeout_s = 0;
  app.add_option("--timeout", timeout_s, "give up after so many seconds")
      ->check(PositiveSeconds());
  std::vector<Entry> entries = RegisterAll(app);

  std::vector<std::string> ours = arguments;
  Session session{console, "", absl::InfiniteDuration(), TakeAfterDashes(ours)};
  // CLI11 is the one library here that throws; it takes arguments last first.
  std::reverse(ours.begin(), ours.end());
  try {
    app.parse(ours);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, console.out, console.err) == 0 ? kExitOk
                                                          : kExitUsage;
  }
  session.address = address;
  if (timeout_s > 0) session.timeout = absl::Seconds(timeout_s);
  for (Entry& entry : entries) {
    if (entry.app->parsed()) return Execute(*entry.command, session);
  }
  return kExitUsage;
}

}  // namespace pipestage
