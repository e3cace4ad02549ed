#include "client/cli/up_command.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/arguments.h"
#include "client/cli/service_readiness.h"
#include "client/up/find_binary.h"
#include "client/up/supervisor.h"

namespace pipestage {
namespace {

struct UpFlags {
  int num_workers = 0;
  std::string repository = "models";
  std::vector<std::string> load;
  std::string coordinator_binary;
  std::string worker_binary;
  int threads = 1;
  std::string log_level = "info";
};

// Where a worker on this machine finds a coordinator that listens at `address`.
std::string DialAddress(const std::string& address) {
  absl::string_view rest = address;
  if (absl::ConsumePrefix(&rest, "0.0.0.0:") ||
      absl::ConsumePrefix(&rest, "[::]:")) {
    return absl::StrCat("127.0.0.1:", rest);
  }
  return address;
}

std::vector<std::string> CoordinatorArgv(const UpFlags& flags,
                                         const std::string& address) {
  std::vector<std::string> argv = {flags.coordinator_binary,
                                   "--address",
                                   address,
                                   "--workers",
                                   absl::StrCat(flags.num_workers),
                                   "--model-repository",
                                   flags.repository,
                                   "--log-level",
                                   flags.log_level};
  for (const std::string& model : flags.load) {
    argv.push_back("--load");
    argv.push_back(model);
  }
  return argv;
}

std::vector<std::string> WorkerArgv(const UpFlags& flags, int index,
                                    const std::string& address,
                                    const std::vector<std::string>& extra) {
  std::vector<std::string> argv = {flags.worker_binary,
                                   "--coordinator",
                                   DialAddress(address),
                                   "--model-repository",
                                   flags.repository,
                                   "--threads",
                                   absl::StrCat(flags.threads),
                                   "--name",
                                   absl::StrCat("worker-", index),
                                   "--index",
                                   absl::StrCat(index),
                                   "--workers-on-host",
                                   absl::StrCat(flags.num_workers),
                                   "--log-level",
                                   flags.log_level};
  argv.insert(argv.end(), extra.begin(), extra.end());
  return argv;
}

class UpCommand : public Command {
 public:
  CLI::App* Register(CLI::App& app) override {
    CLI::App* command = app.add_subcommand(
        "up", "a coordinator and workers on this machine, until Ctrl-C");
    command->add_option("--workers", flags_.num_workers, "how many")
        ->required()
        ->check(CLI::Range(1, 1024));
    command
        ->add_option("--model-repository", flags_.repository,
                     "folder of model packages")
        ->capture_default_str();
    command
        ->add_option("--load", flags_.load, "serve NAME[@VERSION]; repeat it")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->check(CheckModelRef);
    command->add_option("--threads", flags_.threads, "of each worker")
        ->check(CLI::PositiveNumber);
    command->add_option("--coordinator-binary", flags_.coordinator_binary,
                        "found beside this program if not given");
    command->add_option("--worker-binary", flags_.worker_binary,
                        "found beside this program if not given");
    command
        ->add_option("--log-level", flags_.log_level,
                     "debug, info, warn or error")
        ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
    command->footer("What follows \"--\" is passed to each worker.");
    return command;
  }

  absl::Status Run(Session& session) override {
    PIPESTAGE_RETURN_IF_ERROR(FindWhatIsNeeded());
    const int stop_fd = session.console.install_stop_signals();
    if (stop_fd < 0) return absl::InternalError("cannot await signals");
    session.console.out << "starting a coordinator and " << flags_.num_workers
                        << " workers; models from " << flags_.repository
                        << std::endl;
    return Supervisor(MakeOptions(session, stop_fd)).Run();
  }

 private:
  absl::Status FindWhatIsNeeded() {
    if (!std::filesystem::is_directory(flags_.repository)) {
      return absl::NotFoundError(
          absl::StrCat("no folder ", flags_.repository,
                       "; name the models' with --model-repository"));
    }
    PIPESTAGE_ASSIGN_OR_RETURN(const std::string folder, ExecutableFolder());
    if (flags_.coordinator_binary.empty()) {
      PIPESTAGE_ASSIGN_OR_RETURN(
          flags_.coordinator_binary,
          FindBinary(folder, "coordinator", "--coordinator-binary"));
    }
    if (flags_.worker_binary.empty()) {
      PIPESTAGE_ASSIGN_OR_RETURN(
          flags_.worker_binary,
          FindBinary(folder, "worker", "--worker-binary"));
    }
    return absl::OkStatus();
  }

  Supervisor::Options MakeOptions(Session& session, int stop_fd) const {
    Supervisor::Options options;
    options.coordinator = [this](const std::string& address) {
      return CoordinatorArgv(flags_, address);
    };
    options.worker = [this, extra = session.after_dashes](
                         int index, const std::string& address) {
      return WorkerArgv(flags_, index, address, extra);
    };
    options.address = session.address;
    options.num_workers = flags_.num_workers;
    options.look = [this](const std::string& address) {
      return LookAtService(DialAddress(address), flags_.load);
    };
    Console& console = session.console;
    options.say = [&console](absl::string_view line) {
      console.out << line << std::endl;
    };
    options.log = [&console](absl::string_view process,
                             absl::string_view line) {
      console.err << process << " | " << line << std::endl;
    };
    options.stop_fd = stop_fd;
    return options;
  }

  UpFlags flags_;
};

}  // namespace

std::unique_ptr<Command> MakeUpCommand() {
  return std::make_unique<UpCommand>();
}

}  // namespace pipestage
