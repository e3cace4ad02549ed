#include "client/up/child_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<ChildProcess> Shell(const std::string& script) {
  return *ChildProcess::Start({"/bin/sh", "-c", script});
}

// Waits for output or for the end.
void Await(ChildProcess& child) {
  pollfd entry{child.output_fd(), POLLIN, 0};
  poll(&entry, 1, /*timeout_ms=*/5000);
}

std::vector<std::string> LinesUntilEnd(ChildProcess& child) {
  std::vector<std::string> all;
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (absl::Now() < deadline) {
    const bool ended = child.HasEnded();
    for (std::string& line : child.TakeLines()) all.push_back(line);
    if (ended) return all;
    Await(child);
  }
  ADD_FAILURE() << "the process did not end";
  return all;
}

TEST(ChildProcessTest, LinesOfBothStreamsAreTaken) {
  auto child = Shell("echo one; echo two >&2; printf three");

  EXPECT_THAT(LinesUntilEnd(*child), ElementsAre("one", "two", "three"));
  EXPECT_EQ(child->HowItEnded(), "exit code 0");
  EXPECT_EQ(child->last_lines().back(), "three");
}

TEST(ChildProcessTest, TheWayItEndedIsKnown) {
  auto fails = Shell("exit 7");
  auto killed = Shell("kill -9 $$");
  LinesUntilEnd(*fails);
  LinesUntilEnd(*killed);

  EXPECT_EQ(fails->HowItEnded(), "exit code 7");
  EXPECT_EQ(killed->HowItEnded(), "signal 9 (Killed)");
}

TEST(ChildProcessTest, OnlyTheLastLinesAreKept) {
  auto child = Shell("for i in $(seq 100); do echo $i; done");

  EXPECT_EQ(LinesUntilEnd(*child).size(), 100u);
  EXPECT_LT(child->last_lines().size(), 20u);
  EXPECT_EQ(child->last_lines().back(), "100");
}

TEST(ChildProcessTest, ASignalReachesIt) {
  auto child = Shell(
      "trap 'echo bye; exit 3' TERM; echo up; "
      "while :; do sleep 0.01; done");
  while (child->last_lines().empty()) {
    Await(*child);
    child->TakeLines();
  }

  child->Signal(SIGTERM);

  EXPECT_THAT(LinesUntilEnd(*child), ElementsAre("bye"));
  EXPECT_EQ(child->HowItEnded(), "exit code 3");
}

TEST(ChildProcessTest, AProgramThatCannotRunIsNamed) {
  EXPECT_THAT(ChildProcess::Start({"/no/such/program"}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("cannot run /no/such/program")));
  EXPECT_THAT(ChildProcess::Start({"/etc/passwd"}),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST(ChildProcessTest, ItIsGoneWhenItsObjectIs) {
  auto child = Shell("while :; do sleep 1; done");
  const pid_t pid = child->pid();

  child.reset();

  EXPECT_NE(kill(pid, 0), 0);
}

// Neither gone nor a zombie, which it stays where nobody reaps orphans.
bool Runs(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  file >> number >> name >> state;
  return !state.empty() && state != "Z" && state != "X";
}

TEST(ChildProcessTest, ItDiesWithItsParent) {
  // A process that starts a child, tells its pid, and is killed.
  int tell[2];
  ASSERT_EQ(pipe(tell), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto child = ChildProcess::Start({"/bin/sleep", "60"});
    const pid_t pid = (*child)->pid();
    [[maybe_unused]] ssize_t written = write(tell[1], &pid, sizeof(pid));
    pause();
    _exit(0);
  }
  pid_t orphan = 0;
  ASSERT_EQ(read(tell[0], &orphan, sizeof(orphan)),
            static_cast<ssize_t>(sizeof(orphan)));

  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);

  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (Runs(orphan) && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_FALSE(Runs(orphan));
}

}  // namespace
}  // namespace pipestage
