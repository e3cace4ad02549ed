#include "worker/worker_main.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/flag_checks.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/receive_window.h"
#include "worker/resident_memory.h"
#include "worker/worker.h"

namespace pipestage {
namespace {

void DeclareFlags(CLI::App& app, WorkerFlags& flags) {
  app.add_option("--coordinator", flags.coordinator,
                 "HOST:PORT of the coordinator")
      ->capture_default_str();
  app.add_option("--model-repository", flags.repository,
                 "folder of model packages, NAME/VERSION/pipeline.json")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--name", flags.name,
                 "how the worker is called in status and errors; default: "
                 "host:pid");
  app.add_option("--index", flags.index, "rank to ask for; -1: any")
      ->envname("PIPESTAGE_WORKER_INDEX")
      ->capture_default_str();
  app.add_option("--workers-on-host", flags.workers_on_host,
                 "workers that share this machine; with fewer GPUs than that, "
                 "--device auto is the CPU")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--device", flags.device,
                 "auto, cpu or cuda:N; auto: GPU number --index modulo their "
                 "count, if there is one")
      ->capture_default_str();
  app.add_option("--backend", flags.backend,
                 "how ranks exchange tensors: auto, or a name such as gloo or "
                 "nccl")
      ->capture_default_str();
  app.add_option("--host", flags.host,
                 "name or address at which other workers reach this one")
      ->capture_default_str();
  app.add_option("--interface", flags.network_interface,
                 "network interface at which they do, instead of --host");
  app.add_option("--threads", flags.threads,
                 "threads within an operator, on the CPU")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--receive-window", flags.receive_window,
                 "messages received ahead, for each peer; 0: 1024, or 16 on a "
                 "GPU, where each occupies a place in the driver's queue")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--receive-window-bytes", flags.receive_window_bytes,
                 "bytes received ahead, for each peer")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 50))
      ->capture_default_str();
  app.add_option("--send-window", flags.send_window,
                 "messages on their way, for each peer")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option(
         "--send-window-bytes", flags.send_window_bytes,
         "bytes on their way, for each peer; two messages always may be")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 50))
      ->capture_default_str();
  app.add_option("--feed-window-bytes", flags.feed_window_bytes,
                 "bytes of inputs and targets received ahead of the calls that "
                 "use them")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 50))
      ->capture_default_str();
  app.add_option("--communicator-timeout", flags.communicator_timeout_s,
                 "seconds after which an exchange that is not done ends the "
                 "communicator; 0: what the coordinator says")
      ->check(SecondsOrZero())
      ->capture_default_str();
  app.add_option("--stage-timeout", flags.stage_timeout_s,
                 "seconds after which a stage that still computes on one "
                 "microbatch is stuck, and the process ends; 0: never")
      ->check(SecondsOrZero())
      ->capture_default_str();
  app.add_option("--drain-timeout", flags.drain_s,
                 "seconds that running calls get to finish after SIGTERM")
      ->check(SecondsOrZero())
      ->capture_default_str();
  app.add_flag("--checksum", flags.checksum,
               "send a CRC-32C with every tensor message in host memory");
  app.add_flag("--allow-torchscript", flags.allow_torchscript,
               "run TorchScript stages: such a file is code");
  app.add_option("--log-level", flags.log_level, "debug, info, warn or error")
      ->capture_default_str();
}

std::string HostAndPid() {
  char host[256] = "worker";
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat(host, ":", getpid());
}

absl::StatusOr<std::vector<std::string>> ChooseBackends(
    const WorkerFlags& flags, std::vector<std::string> available) {
  if (flags.backend == "auto") return available;
  if (std::find(available.begin(), available.end(), flags.backend) ==
      available.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--backend ", flags.backend,
        " does not work here; these do: ", absl::StrJoin(available, ", ")));
  }
  return std::vector<std::string>{flags.backend};
}

// Says on which device and by which way tensors travel.
void LogDevice(const StageLoader& loader,
               const std::vector<std::string>& backends) {
  const std::string names = absl::StrJoin(backends, ", ");
  if (loader.device() == DeviceKind::kHost) {
    PIPESTAGE_LOG_INFO("device {}; no GPU is used, tensors go over {}",
                       loader.DescribeDevice(), names);
  } else {
    PIPESTAGE_LOG_INFO("device {}; tensors go over {}", loader.DescribeDevice(),
                       names);
  }
}

// After the drain timeout, for the farewell to the coordinator.
constexpr absl::Duration kLastRespite = absl::Seconds(4);

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Whether one of them comes within this time.
bool WaitForSignal(const sigset_t& signals) {
  constexpr timespec kPatience = {.tv_sec = 0, .tv_nsec = 100'000'000};
  return sigtimedwait(&signals, nullptr, &kPatience) > 0;
}

void RunUntilStopped(Worker& worker, absl::Duration drain,
                     const sigset_t& signals) {
  worker.Start();
  bool signalled = false;
  while (!signalled && !worker.shutdown_requested().HasBeenNotified()) {
    signalled = WaitForSignal(signals);
  }
  PIPESTAGE_LOG_INFO("stopping");
  // What does not even end then is a stage, which nothing can interrupt.
  const absl::Time deadline = absl::Now() + drain + kLastRespite;
  std::atomic<bool> stopped = false;
  std::thread stopper([&] {
    worker.Stop(drain);
    stopped = true;
  });
  while (!stopped) {
    if (absl::Now() > deadline) {
      PIPESTAGE_LOG_ERROR("a stage still computes; leaving without it");
      _exit(1);
    }
    if (!WaitForSignal(signals)) continue;
    // The first one may come when the coordinator has already said so.
    if (!std::exchange(signalled, true)) continue;
    PIPESTAGE_LOG_WARN("a second signal: leaving at once");
    _exit(1);
  }
  stopper.join();
}

// A receive on a GPU is a kernel in the driver's queue of some thousand places:
// a full one blocks whoever launches the next.
int ReceiveWindowOf(const WorkerFlags& flags, DeviceKind device) {
  if (flags.receive_window > 0) return flags.receive_window;
  constexpr int kOnGpu = 16;
  return device == DeviceKind::kHost ? ReceiveWindow::Options().max_messages
                                     : kOnGpu;
}

absl::Status Run(const WorkerFlags& flags, const WorkerParts& parts) {
  // Before there are other threads, which inherit it.
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Gloo writes to sockets whose other end may have died.
  signal(SIGPIPE, SIG_IGN);
  PIPESTAGE_ASSIGN_OR_RETURN(const std::unique_ptr<StageLoader> loader,
                             parts.make_loader(flags));
  PIPESTAGE_ASSIGN_OR_RETURN(
      const std::vector<std::string> backends,
      ChooseBackends(flags, parts.backends(loader->device())));
  LogDevice(*loader, backends);

  absl::BitGen random;
  absl::Mutex random_mu;
  Worker::Options options;
  options.coordinator = flags.coordinator;
  options.repository = flags.repository;
  options.name = flags.name.empty() ? HostAndPid() : flags.name;
  options.incarnation =
      Incarnation(absl::Uniform<int64_t>(random, 1, INT64_MAX));
  options.requested_rank = flags.index;
  options.allow_torchscript = flags.allow_torchscript;
  options.backends = backends;
  options.communicator_factory = parts.make_communicator_factory(flags);
  options.host = flags.host;
  options.network_interface = flags.network_interface;
  options.communicator_timeout = absl::Seconds(flags.communicator_timeout_s);
  options.executor.receive = {ReceiveWindowOf(flags, loader->device()),
                              flags.receive_window_bytes};
  options.executor.send = {flags.send_window, flags.send_window_bytes,
                           flags.checksum};
  options.feed_window_bytes = flags.feed_window_bytes;
  if (flags.stage_timeout_s > 0) {
    options.stage_timeout = absl::Seconds(flags.stage_timeout_s);
  }
  options.on_stuck = [](const std::string& what) {
    PIPESTAGE_LOG_ERROR("{}; this process ends, to be started again", what);
    _exit(1);
  };
  options.loader = loader.get();
  options.clock = Clock::Real();
  options.random = [&] {
    absl::MutexLock lock(&random_mu);
    return absl::Uniform(random, 0.0, 1.0);
  };
  Worker worker(std::move(options));
  RunUntilStopped(worker, absl::Seconds(flags.drain_s), signals);
  return absl::OkStatus();
}

}  // namespace

int WorkerMain(int argc, char** argv, const WorkerParts& parts) {
  RetainFreedMemory();
  CLI::App app("Runs stages of models as part of a pipeline.");
  WorkerFlags flags;
  DeclareFlags(app, flags);
  CLI11_PARSE(app, argc, argv);
  absl::Status status = InitLogging("worker", flags.log_level);
  if (status.ok()) status = Run(flags, parts);
  if (status.ok()) return 0;
  std::fprintf(stderr, "worker: %s\n", status.ToString().c_str());
  return 1;
}

}  // namespace pipestage
