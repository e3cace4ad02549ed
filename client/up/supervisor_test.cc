#include "client/up/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Shell scripts in the roles of coordinator and worker.
constexpr char kCoordinator[] =
    "trap 'echo drained; exit 0' TERM; "
    "echo 'pipestage coordinator listening on 127.0.0.1:1234'; "
    "while :; do sleep 0.01; done";
constexpr char kWorker[] =
    "trap 'echo bye; exit 0' TERM; echo up $0 $1; "
    "while :; do sleep 0.01; done";

class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest() {
    EXPECT_EQ(pipe2(stop_pipe_, O_NONBLOCK | O_CLOEXEC), 0);
    options_.coordinator = [this](const std::string& address) {
      return Shell(coordinator_, {address});
    };
    options_.worker = [this](int index, const std::string& address) {
      return Shell(worker_, {absl::StrCat(index), address});
    };
    options_.address = "127.0.0.1:0";
    options_.look = [](const std::string&) { return std::string(); };
    options_.look_interval = absl::Milliseconds(1);
    options_.restart.first_delay = absl::Milliseconds(1);
    options_.stop_fd = stop_pipe_[0];
    options_.say = [this](absl::string_view line) { Take(line); };
    options_.log = [this](absl::string_view process, absl::string_view line) {
      Take(absl::StrCat(process, " | ", line));
    };
  }
  ~SupervisorTest() override {
    close(stop_pipe_[0]);
    close(stop_pipe_[1]);
  }

  static std::vector<std::string> Shell(const std::string& script,
                                        std::vector<std::string> arguments) {
    std::vector<std::string> argv = {"/bin/sh", "-c", script};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return argv;
  }

  void Take(absl::string_view line) {
    lines_.emplace_back(line);
    if (on_line_) on_line_(lines_.back());
  }

  void RequestStop() {
    const char byte = 1;
    ASSERT_EQ(write(stop_pipe_[1], &byte, 1), 1);
  }

  // Asks to stop when `text` has been in `times` lines.
  void StopAt(const std::string& text, int times = 1) {
    on_line_ = [=, this, left = times](const std::string& line) mutable {
      if (absl::StrContains(line, text) && --left == 0) RequestStop();
    };
  }

  int LineOf(const std::string& text) const {
    const auto line = std::find_if(
        lines_.begin(), lines_.end(),
        [&](const std::string& l) { return absl::StrContains(l, text); });
    EXPECT_NE(line, lines_.end()) << "\"" << text << "\" is not in\n"
                                  << absl::StrJoin(lines_, "\n");
    return static_cast<int>(line - lines_.begin());
  }

  absl::Status Run() { return Supervisor(options_).Run(); }

  std::string coordinator_ = kCoordinator;
  std::string worker_ = kWorker;
  Supervisor::Options options_;
  std::vector<std::string> lines_;
  std::function<void(const std::string&)> on_line_;
  int stop_pipe_[2];
};

TEST_F(SupervisorTest, AllStartAndTheCoordinatorStopsFirst) {
  options_.num_workers = 2;
  options_.look = [this, first = true](const std::string& address) mutable {
    EXPECT_EQ(address, "127.0.0.1:1234");
    if (std::exchange(first, false)) return std::string("waiting for workers");
    const auto up = [](const std::string& line) {
      return absl::StrContains(line, "| up");
    };
    const auto workers = std::count_if(lines_.begin(), lines_.end(), up);
    return std::string(workers == 2 ? "" : "waiting for workers");
  };
  StopAt("ready at 127.0.0.1:1234");

  EXPECT_THAT(Run(), IsOk());

  EXPECT_THAT(lines_, Contains("worker 0 | up 0 127.0.0.1:1234"));
  EXPECT_THAT(lines_, Contains("worker 1 | up 1 127.0.0.1:1234"));
  EXPECT_LT(LineOf("listens on 127.0.0.1:1234"), LineOf("worker 0 started"));
  EXPECT_LT(LineOf("waiting for workers"), LineOf("ready at"));
  EXPECT_LT(LineOf("coordinator | drained"), LineOf("worker 0 | bye"));
  EXPECT_LT(LineOf("worker 1 | bye"), LineOf("stopped"));
}

TEST_F(SupervisorTest, AWorkerThatEndsIsStartedAgainAndTheCauseIsTold) {
  const std::string marker =
      absl::StrCat(::testing::TempDir(), "/started-once");
  unlink(marker.c_str());
  worker_ = absl::StrCat("if [ ! -e ", marker, " ]; then touch ", marker,
                         "; echo out of luck; exit 3; fi; ", kWorker);
  StopAt("worker 0 | up");

  EXPECT_THAT(Run(), IsOk());

  EXPECT_THAT(
      lines_[LineOf("ended")],
      HasSubstr("ended: exit code 3; its last lines:\n    out of luck"));
  EXPECT_LT(LineOf("worker 0 is started again"), LineOf("worker 0 | up"));
}

TEST_F(SupervisorTest, AKilledWorkerIsNamedWithItsSignal) {
  bool killed = false;
  on_line_ = [&](const std::string& line) {
    const size_t at = line.find("worker 0 started (pid ");
    if (at == std::string::npos) return;
    if (killed) return RequestStop();
    killed = true;
    kill(std::stoi(line.substr(at + 22)), SIGKILL);
  };

  EXPECT_THAT(Run(), IsOk());

  LineOf("ended: signal 9 (Killed)");
}

TEST_F(SupervisorTest, AWorkerThatKeepsEndingIsGivenUp) {
  worker_ = "echo no such device; exit 1";
  options_.restart.max_early_ends = 3;

  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kUnavailable,
                              HasSubstr("worker 0 ended 3 times in a row")));

  LineOf("coordinator | drained");
}

TEST_F(SupervisorTest, ACoordinatorThatEndsLaterIsStartedAtItsAddress) {
  coordinator_ = absl::StrCat("echo asked for $0; ", kCoordinator);
  bool killed = false;
  on_line_ = [&](const std::string& line) {
    const size_t at = line.find("listens on 127.0.0.1:1234 (pid ");
    if (at == std::string::npos) return;
    if (killed) return RequestStop();
    killed = true;
    kill(std::stoi(line.substr(at + 31)), SIGKILL);
  };

  EXPECT_THAT(Run(), IsOk());

  EXPECT_LT(LineOf("asked for 127.0.0.1:0"),
            LineOf("asked for 127.0.0.1:1234"));
}

TEST_F(SupervisorTest, ACoordinatorThatCannotServeEndsItAll) {
  coordinator_ = "echo address in use; exit 1";

  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kUnavailable));

  EXPECT_THAT(lines_[LineOf("coordinator (pid")], HasSubstr("address in use"));
}

TEST_F(SupervisorTest, AProgramThatIsNotThereEndsItAll) {
  options_.worker = [](int, const std::string&) {
    return std::vector<std::string>{"/no/such/worker"};
  };

  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kNotFound,
                              HasSubstr("/no/such/worker")));

  LineOf("coordinator | drained");
}

TEST_F(SupervisorTest, ASecondRequestKillsWhatDoesNotStop) {
  coordinator_ = absl::StrCat("trap '' TERM; ",
                              "echo 'pipestage coordinator listening on x:1'; ",
                              "while :; do sleep 0.01; done");
  on_line_ = [&](const std::string& line) {
    if (absl::StartsWith(line, "ready") || absl::StartsWith(line, "stopping")) {
      RequestStop();
    }
  };

  EXPECT_THAT(Run(), IsOk());

  LineOf("asked again: killing");
}

TEST_F(SupervisorTest, WhatDoesNotStopInTimeIsKilled) {
  worker_ = "trap '' TERM; echo up; while :; do sleep 0.01; done";
  options_.worker_stop_timeout = absl::Milliseconds(20);
  StopAt("worker 0 | up");

  EXPECT_THAT(Run(), IsOk());

  LineOf("out of patience");
}

}  // namespace
}  // namespace pipestage
