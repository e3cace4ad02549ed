#ifndef PIPESTAGE_CLIENT_UP_SUPERVISOR_H_
#define PIPESTAGE_CLIENT_UP_SUPERVISOR_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "client/up/child_process.h"
#include "client/up/restart_policy.h"

namespace pipestage {

// Runs a coordinator and its workers on this machine: starts them, says when
// the service is ready, starts again who ends, and stops all of them in order
// (the coordinator drains first). No process outlives it.
//
// Single-threaded: call Run() once, in a thread that lives as long as the
// process.
class Supervisor {
 public:
  struct Options {
    // Command lines. The address is the one asked for, later the one it listens
    // on.
    std::function<std::vector<std::string>(const std::string& address)>
        coordinator;
    std::function<std::vector<std::string>(int index,
                                           const std::string& address)>
        worker;
    std::string address;
    int num_workers = 1;

    // Looks once whether the service at `address` is ready: "" if so, otherwise
    // what it waits for. May block for a fraction of a second.
    std::function<std::string(const std::string& address)> look;
    absl::Duration look_interval = absl::Milliseconds(200);

    // Lines for the person at the terminal: ours, and those of a process.
    std::function<void(absl::string_view line)> say;
    std::function<void(absl::string_view process, absl::string_view line)> log;

    // A descriptor that gives one byte for each request to stop: the first
    // drains, the second kills. Not owned; non-blocking.
    int stop_fd = -1;

    RestartPolicy::Options restart;
    absl::Duration drain_timeout = absl::Seconds(30);
    absl::Duration worker_stop_timeout = absl::Seconds(10);
    Clock* clock = Clock::Real();
  };

  explicit Supervisor(Options options);

  // Blocks until everything has stopped. OK if that was asked for; Unavailable,
  // with the first cause, if a process could not be kept running.
  absl::Status Run();

 private:
  enum class Phase {
    kStarting,  // the coordinator does not listen yet
    kRunning,
    kDraining,  // the coordinator has been asked to end
    kStoppingWorkers,
    kStopped,
  };

  struct Child {
    std::string name;
    int worker_index = -1;                  // -1: the coordinator
    std::unique_ptr<ChildProcess> process;  // null: not running
    absl::Time started;
    absl::Time start_at = absl::InfiniteFuture();  // when it is not running
    RestartPolicy restart;
  };

  bool IsStopping() const { return phase_ >= Phase::kDraining; }
  Child& coordinator() { return children_[0]; }

  void AwaitEvents();
  void TakeStopRequests();
  void TakeOutput(Child& child);
  void OnLine(Child& child, absl::string_view line);
  void OnListening(absl::string_view address);
  void StartDue();
  void TakeEnded();
  void OnEnded(Child& child);
  void LookAtService();

  // Stops everything; Run() returns `result`.
  void Stop(absl::Status result);
  void AdvanceStopping();
  void SignalAll(int signal, bool workers_only);
  bool AnyWorkerRuns() const;

  const Options options_;
  Phase phase_ = Phase::kStarting;
  std::string address_;
  std::vector<Child> children_;  // the coordinator, then the workers
  absl::Time begun_;
  absl::Time next_look_;
  bool ready_ = false;
  std::string waits_for_;
  absl::Time kill_at_ = absl::InfiniteFuture();
  absl::Status result_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_UP_SUPERVISOR_H_
