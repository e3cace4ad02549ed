// The coordinator daemon: flags, signals, and the Server.

#include <malloc.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/flag_checks.h"
#include "base/log.h"
#include "coordinator/model_ref.h"
#include "coordinator/server.h"

namespace pipestage {
namespace {

struct Flags {
  Server::Options server;
  std::vector<std::string> load;
  double client_grace_s = 30;
  double worker_timeout_s = 10;
  double drain_s = 30;
  std::string log_level = "info";
};

void DeclareFlags(CLI::App& app, Flags& flags) {
  Server::Options& server = flags.server;
  app.add_option("--address", server.address, "HOST:PORT; port 0: any")
      ->capture_default_str();
  app.add_option("--workers", server.membership.num_ranks,
                 "how many workers make the pipeline")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--model-repository", server.model_repository,
                 "folder of model packages, NAME/VERSION/pipeline.json")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--load", flags.load,
                 "NAME or NAME@VERSION to load once the workers are there; "
                 "repeatable")
      ->allow_extra_args(false);
  app.add_option("--max-message-bytes", server.max_message_bytes,
                 "limit of one gRPC message")
      ->capture_default_str();
  app.add_option("--max-waiting-calls", server.admission.max_waiting,
                 "calls that may wait for their turn")
      ->capture_default_str();
  app.add_option("--max-running-calls", server.admission.max_running,
                 "calls that workers have at once")
      ->capture_default_str();
  app.add_option("--max-admitted-bytes", server.admission.max_bytes,
                 "tensor bytes of all calls together")
      ->capture_default_str();
  app.add_option("--max-call-bytes", server.max_call_bytes,
                 "tensor bytes that one StreamEval may announce")
      ->capture_default_str();
  app.add_option("--client-grace", flags.client_grace_s,
                 "seconds that a client of StreamEval may do nothing while it "
                 "sends, or has an answer to read")
      ->check(PositiveSeconds())
      ->capture_default_str();
  app.add_option("--worker-timeout", flags.worker_timeout_s,
                 "seconds of silence after which a worker is lost")
      ->check(PositiveSeconds())
      ->capture_default_str();
  app.add_option("--drain-timeout", flags.drain_s,
                 "seconds that calls get to finish after SIGTERM")
      ->check(SecondsOrZero())
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "debug, info, warn or error")
      ->capture_default_str();
  app.add_flag("--unsafe-listen-anywhere", server.allow_any_address,
               "allow an --address that other machines reach, without any "
               "authentication");
}

// Freed blocks of a tensor's size stay with the process: giving them back and
// taking them again costs several times the copying.
void KeepHeap() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

std::string DrawStorePrefix() {
  std::random_device random;
  return absl::StrCat("pipestage/", absl::Hex(random()), absl::Hex(random()),
                      "/");
}

absl::Status Fill(Flags& flags) {
  for (const std::string& text : flags.load) {
    auto ref = ParseModelRef(text);
    if (!ref.ok()) return ref.status();
    flags.server.load.push_back(*std::move(ref));
  }
  Membership::Options& membership = flags.server.membership;
  membership.worker_timeout = absl::Seconds(flags.worker_timeout_s);
  flags.server.pace.grace = absl::Seconds(flags.client_grace_s);
  membership.epoch = Epoch(absl::ToUnixMillis(absl::Now()));
  membership.draw_store_prefix = DrawStorePrefix;
  return InitLogging("coordinator", flags.log_level);
}

sigset_t BlockTerminationSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR1);  // our own: drained
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A log's or peer's end that has gone is an error to handle, no death.
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// Drains at the first signal; a second one ends the process at once.
void ServeUntilSignalled(Server& server, const sigset_t& signals,
                         absl::Duration grace) {
  int signal = 0;
  do {
    sigwait(&signals, &signal);
  } while (signal == SIGUSR1);
  const pthread_t main_thread = pthread_self();
  std::thread drain([&server, grace, main_thread] {
    server.Drain(grace);
    pthread_kill(main_thread, SIGUSR1);
  });
  sigwait(&signals, &signal);
  if (signal != SIGUSR1) {
    PIPESTAGE_LOG_WARN("a second signal: not waiting for calls");
    std::_Exit(1);
  }
  drain.join();
}

int Main(int argc, char** argv) {
  KeepHeap();
  CLI::App app("Pipestage coordinator: plans calls and drives the workers");
  Flags flags;
  DeclareFlags(app, flags);
  CLI11_PARSE(app, argc, argv);
  if (const absl::Status status = Fill(flags); !status.ok()) {
    std::cerr << status.message() << "\n";
    return 2;
  }
  const sigset_t signals = BlockTerminationSignals();
  auto server = Server::Create(flags.server);
  const absl::Status started =
      server.ok() ? (*server)->Start() : server.status();
  if (!started.ok()) {
    PIPESTAGE_LOG_ERROR("{}", std::string(started.message()));
    return 1;
  }
  if (flags.server.allow_any_address) {
    PIPESTAGE_LOG_WARN("listening without authentication");
  }
  std::cout << "pipestage coordinator listening on " << (*server)->address()
            << std::endl;
  ServeUntilSignalled(**server, signals, absl::Seconds(flags.drain_s));
  PIPESTAGE_LOG_INFO("stopped");
  return 0;
}

}  // namespace
}  // namespace pipestage

int main(int argc, char** argv) { return pipestage::Main(argc, argv); }
