#ifndef PIPESTAGE_CLIENT_CLI_COMMAND_H_
#define PIPESTAGE_CLIENT_CLI_COMMAND_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/pipeline_client.h"

namespace pipestage {

// Where a command line runs.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;
  // $PIPESTAGE_ADDRESS, or empty.
  std::string address_from_environment;
  // Makes SIGINT and its like readable at the descriptor it returns. See
  // client/up/stop_signals.h.
  std::function<int()> install_stop_signals;
};

// What all commands share, once the arguments are parsed.
struct Session {
  Console& console;
  std::string address;
  absl::Duration timeout = absl::InfiniteDuration();
  std::vector<std::string> after_dashes;  // arguments after "--"

  absl::StatusOr<std::unique_ptr<PipelineClient>> Connect() const {
    PipelineClient::Options options;
    options.address = address;
    options.timeout = timeout;
    return PipelineClient::Create(std::move(options));
  }
};

// One subcommand. Register() once, then Run() if it was chosen.
class Command {
 public:
  virtual ~Command() = default;

  // Adds the subcommand and its flags to `app`; returns it.
  virtual CLI::App* Register(CLI::App& app) = 0;
  virtual absl::Status Run(Session& session) = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_CLI_COMMAND_H_
