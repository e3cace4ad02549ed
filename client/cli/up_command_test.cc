// `pipestage up` as a process, with shell scripts for its programs.

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status_matchers.h"
#include "client/testing/fake_coordinator.h"
#include "client/up/child_process.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

namespace fs = std::filesystem;

class UpCommandTest : public ::testing::Test {
 protected:
  UpCommandTest() {
    fs::create_directories(PathOf("models"));
    // It speaks of the coordinator of this test, which answers in its stead.
    WriteProgram("coordinator",
                 absl::StrCat("echo coordinator \"$@\"\n"
                              "echo pipestage coordinator listening on ",
                              coordinator_.address(),
                              "\n"
                              "trap 'echo drained; exit 0' TERM\n"
                              "while :; do sleep 0.01; done\n"));
    WriteProgram("worker",
                 "echo worker \"$@\"\n"
                 "trap 'exit 0' TERM\n"
                 "while :; do sleep 0.01; done\n");
  }

  static std::string PathOf(const std::string& name) {
    return absl::StrCat(::testing::TempDir(), "/up/", name);
  }

  static void WriteProgram(const std::string& name, const std::string& script) {
    std::ofstream(PathOf(name)) << "#!/bin/sh\n" << script;
    fs::permissions(PathOf(name), fs::perms::owner_all);
  }

  std::unique_ptr<ChildProcess> Up(const std::vector<std::string>& more) {
    std::vector<std::string> argv = {"client/pipestage",
                                     "up",
                                     "--workers",
                                     "1",
                                     "--address",
                                     "127.0.0.1:0",
                                     "--model-repository",
                                     PathOf("models"),
                                     "--coordinator-binary",
                                     PathOf("coordinator"),
                                     "--worker-binary",
                                     PathOf("worker")};
    argv.insert(argv.end(), more.begin(), more.end());
    return *ChildProcess::Start(argv);
  }

  // Reads until a line holds `text` or the process ends; what was read.
  static std::string ReadUntil(ChildProcess& child, const std::string& text) {
    std::string read;
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (absl::Now() < deadline) {
      const bool ended = child.HasEnded();
      absl::StrAppend(&read, absl::StrJoin(child.TakeLines(), "\n"), "\n");
      if (ended || absl::StrContains(read, text)) break;
      absl::SleepFor(absl::Milliseconds(5));
    }
    EXPECT_THAT(read, ::testing::HasSubstr(text));
    return read;
  }

  FakeCoordinator coordinator_;
};

TEST_F(UpCommandTest, ItStartsIsReadyAndDrains) {
  auto up = Up({"--load", "echo@1", "--", "--backend", "gloo"});
  const std::string started = ReadUntil(
      *up, absl::StrCat("ready at ", coordinator_.address(), " after"));
  EXPECT_THAT(started,
              ::testing::HasSubstr(absl::StrCat(
                  "coordinator --address 127.0.0.1:0 --workers 1 "
                  "--model-repository ",
                  PathOf("models"), " --log-level info --load echo@1")));

  up->Signal(SIGTERM);

  EXPECT_THAT(ReadUntil(*up, "stopped"), ::testing::HasSubstr("drained"));
  while (!up->HasEnded()) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(up->HowItEnded(), "exit code 0");
}

TEST_F(UpCommandTest, WorkersAreToldWhereAndWhoTheyAre) {
  auto up = Up({"--threads", "3", "--", "--backend", "gloo"});

  ReadUntil(
      *up, absl::StrCat("worker --coordinator ", coordinator_.address(),
                        " --model-repository ", PathOf("models"),
                        " --threads 3 --name worker-0 --index 0 "
                        "--workers-on-host 1 --log-level info --backend gloo"));
}

TEST_F(UpCommandTest, ACoordinatorThatCannotServeIsAnError) {
  WriteProgram("coordinator", "echo the port is taken; exit 1\n");
  auto up = Up({});

  ReadUntil(*up, "ended before it served");
  while (!up->HasEnded()) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(up->HowItEnded(), "exit code 1");
}

}  // namespace
}  // namespace pipestage
