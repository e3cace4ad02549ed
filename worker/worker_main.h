#ifndef PIPESTAGE_WORKER_WORKER_MAIN_H_
#define PIPESTAGE_WORKER_WORKER_MAIN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/communicator_slot.h"
#include "worker/stage.h"

namespace pipestage {

// The command line of a worker daemon.
struct WorkerFlags {
  std::string coordinator = "127.0.0.1:7070";
  std::string repository;
  std::string name;              // empty: host:pid
  int index = -1;                // -1: any free rank
  int workers_on_host = 1;       // how many share this machine's GPUs
  std::string device = "auto";   // auto, cpu, cuda:N
  std::string backend = "auto";  // auto, or one of the framework's
  std::string host = "127.0.0.1";
  std::string network_interface;
  int threads = 1;         // within an operator, on the CPU
  int receive_window = 0;  // 0: as the device needs
  int64_t receive_window_bytes = int64_t{64} << 20;
  int send_window = 64;
  int64_t send_window_bytes = int64_t{64} << 20;
  int64_t feed_window_bytes = int64_t{8} << 20;
  double communicator_timeout_s = 0;
  double drain_s = 30;
  double stage_timeout_s = 600;  // 0: none
  bool checksum = false;
  bool allow_torchscript = false;
  std::string log_level = "info";
};

// What a daemon is made of besides this component: stages and transports.
struct WorkerParts {
  // A loader for the device the flags ask for.
  std::function<absl::StatusOr<std::unique_ptr<StageLoader>>(
      const WorkerFlags& flags)>
      make_loader;
  // Backends that work for a device, best first.
  std::function<std::vector<std::string>(DeviceKind device)> backends;
  std::function<CommunicatorFactory(const WorkerFlags& flags)>
      make_communicator_factory;
};

// Runs a worker until SIGTERM, SIGINT or the coordinator's Shutdown; the exit
// code of the process. On a signal the call that runs is finished; a second
// signal ends the process at once.
int WorkerMain(int argc, char** argv, const WorkerParts& parts);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_WORKER_MAIN_H_
