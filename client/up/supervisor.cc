#include "client/up/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace pipestage {
namespace {

// How long an end without a last word goes unnoticed.
constexpr int kPollMs = 50;

constexpr absl::string_view kListening = "pipestage coordinator listening on ";

std::string Seconds(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

}  // namespace

Supervisor::Supervisor(Options options)
    : options_(std::move(options)), address_(options_.address) {
  children_.push_back({"coordinator", -1, nullptr, absl::InfinitePast(),
                       absl::InfinitePast(), RestartPolicy(options_.restart)});
  for (int i = 0; i < options_.num_workers; ++i) {
    children_.push_back({absl::StrCat("worker ", i), i, nullptr,
                         absl::InfinitePast(), absl::InfiniteFuture(),
                         RestartPolicy(options_.restart)});
  }
}

absl::Status Supervisor::Run() {
  begun_ = options_.clock->Now();
  next_look_ = begun_;
  while (phase_ != Phase::kStopped) {
    StartDue();
    AwaitEvents();
    TakeStopRequests();
    for (Child& child : children_) TakeOutput(child);
    TakeEnded();
    if (IsStopping()) {
      AdvanceStopping();
    } else {
      LookAtService();
    }
  }
  return result_;
}

void Supervisor::AwaitEvents() {
  std::vector<pollfd> entries = {{options_.stop_fd, POLLIN, 0}};
  for (const Child& child : children_) {
    if (child.process == nullptr) continue;
    entries.push_back({child.process->output_fd(), POLLIN, 0});
  }
  poll(entries.data(), entries.size(), kPollMs);
  // A pipe that is closed but whose process lives on would have us spin.
  for (const pollfd& entry : entries) {
    if (entry.revents == POLLHUP) {
      poll(nullptr, 0, /*timeout_ms=*/5);
      break;
    }
  }
}

void Supervisor::TakeStopRequests() {
  char request;
  while (read(options_.stop_fd, &request, 1) == 1) {
    if (IsStopping()) {
      options_.say("asked again: killing what is left");
      SignalAll(SIGKILL, /*workers_only=*/false);
    } else {
      options_.say("stopping: the coordinator drains (ask again to kill)");
      Stop(absl::OkStatus());
    }
  }
}

void Supervisor::TakeOutput(Child& child) {
  if (child.process == nullptr) return;
  for (const std::string& line : child.process->TakeLines()) {
    OnLine(child, line);
  }
}

void Supervisor::OnLine(Child& child, absl::string_view line) {
  absl::string_view address = line;
  if (child.worker_index < 0 && absl::ConsumePrefix(&address, kListening)) {
    OnListening(address);
    return;
  }
  options_.log(child.name, line);
}

void Supervisor::OnListening(absl::string_view address) {
  address_ = std::string(address);
  options_.say(absl::StrCat("coordinator listens on ", address_, " (pid ",
                            coordinator().process->pid(), ")"));
  if (phase_ != Phase::kStarting) return;
  phase_ = Phase::kRunning;
  next_look_ = options_.clock->Now() + options_.look_interval;  // workers first
  for (Child& child : children_) {
    if (child.worker_index >= 0) child.start_at = options_.clock->Now();
  }
}

void Supervisor::StartDue() {
  const absl::Time now = options_.clock->Now();
  for (Child& child : children_) {
    if (IsStopping() || child.process != nullptr || child.start_at > now) {
      continue;
    }
    absl::StatusOr<std::unique_ptr<ChildProcess>> process = ChildProcess::Start(
        child.worker_index < 0 ? options_.coordinator(address_)
                               : options_.worker(child.worker_index, address_));
    if (!process.ok()) {
      Stop(process.status());
      return;
    }
    child.process = *std::move(process);
    child.started = now;
    child.start_at = absl::InfiniteFuture();
    if (child.worker_index >= 0) {
      options_.say(absl::StrCat(child.name, " started (pid ",
                                child.process->pid(), ")"));
    }
  }
}

void Supervisor::TakeEnded() {
  for (Child& child : children_) {
    if (child.process == nullptr || !child.process->HasEnded()) continue;
    TakeOutput(child);
    if (!IsStopping()) OnEnded(child);
    child.process.reset();
  }
}

void Supervisor::OnEnded(Child& child) {
  const absl::Time now = options_.clock->Now();
  ready_ = false;
  std::string cause = absl::StrCat(child.name, " (pid ", child.process->pid(),
                                   ") ended: ", child.process->HowItEnded());
  if (child.process->last_lines().empty()) {
    absl::StrAppend(&cause, "; it printed nothing");
  } else {
    absl::StrAppend(&cause, "; its last lines:\n    ",
                    absl::StrJoin(child.process->last_lines(), "\n    "));
  }
  options_.say(cause);
  if (phase_ == Phase::kStarting) {
    Stop(absl::UnavailableError("the coordinator ended before it served"));
    return;
  }
  const std::optional<absl::Duration> delay =
      child.restart.OnEnd(now - child.started);
  if (!delay.has_value()) {
    Stop(absl::UnavailableError(absl::StrCat(
        child.name, " ended ", child.restart.early_ends(),
        " times in a row soon after its start; the cause is above")));
    return;
  }
  options_.say(
      absl::StrCat(child.name, " is started again in ", Seconds(*delay)));
  child.start_at = now + *delay;
}

void Supervisor::LookAtService() {
  const absl::Time now = options_.clock->Now();
  if (phase_ != Phase::kRunning || ready_ || now < next_look_) return;
  const std::string waits_for = options_.look(address_);
  next_look_ = options_.clock->Now() + options_.look_interval;
  if (waits_for.empty()) {
    ready_ = true;
    options_.say(absl::StrCat("ready at ", address_, " after ",
                              Seconds(options_.clock->Now() - begun_)));
  } else if (waits_for != waits_for_) {
    options_.say(waits_for);
  }
  waits_for_ = waits_for;
}

void Supervisor::Stop(absl::Status result) {
  if (IsStopping()) return;
  result_ = std::move(result);
  phase_ = Phase::kDraining;
  kill_at_ = options_.clock->Now() + options_.drain_timeout;
  if (coordinator().process != nullptr) coordinator().process->Signal(SIGTERM);
}

void Supervisor::AdvanceStopping() {
  const absl::Time now = options_.clock->Now();
  if (phase_ == Phase::kDraining && coordinator().process == nullptr) {
    phase_ = Phase::kStoppingWorkers;
    kill_at_ = now + options_.worker_stop_timeout;
    SignalAll(SIGTERM, /*workers_only=*/true);
  }
  if (phase_ == Phase::kStoppingWorkers && !AnyWorkerRuns()) {
    phase_ = Phase::kStopped;
    options_.say("stopped");
    return;
  }
  if (now >= kill_at_) {
    kill_at_ = absl::InfiniteFuture();
    options_.say("out of patience: killing what has not stopped");
    SignalAll(SIGKILL, /*workers_only=*/phase_ == Phase::kStoppingWorkers);
  }
}

void Supervisor::SignalAll(int signal, bool workers_only) {
  for (Child& child : children_) {
    if (child.process == nullptr) continue;
    if (workers_only && child.worker_index < 0) continue;
    child.process->Signal(signal);
  }
}

bool Supervisor::AnyWorkerRuns() const {
  for (const Child& child : children_) {
    if (child.worker_index >= 0 && child.process != nullptr) return true;
  }
  return false;
}

}  // namespace pipestage
