#include "client/up/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

constexpr size_t kLastLines = 12;
// A line longer than this is cut into several.
constexpr size_t kMaxLine = 8192;

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

absl::StatusOr<Pipe> MakePipe(int read_flags) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    const int error = errno;
    return absl::ErrnoToStatus(error, "cannot make a pipe");
  }
  if (read_flags != 0) fcntl(ends[0], F_SETFL, read_flags);
  return Pipe{ends[0], ends[1]};
}

// What happens in the child until it is another program: system calls only, for
// other threads of the parent may have held any lock when it was forked.
[[noreturn]] void Become(char* const* argv, int output, int failure,
                         pid_t parent) {
  setpgid(0, 0);
  // No orphans, even if we are killed. The signal comes when the *thread* that
  // forked ends.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execv(argv[0], argv);
  const int error = errno;
  [[maybe_unused]] ssize_t written = write(failure, &error, sizeof(error));
  _exit(127);
}

// Waits until the child has become its program; errno of execv otherwise.
int AwaitExec(int failure) {
  int error = 0;
  ssize_t count;
  do {
    count = read(failure, &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  return count == sizeof(error) ? error : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& argv) {
  std::vector<char*> arguments;
  for (const std::string& argument : argv) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  PIPESTAGE_ASSIGN_OR_RETURN(const Pipe output, MakePipe(O_NONBLOCK));
  absl::StatusOr<Pipe> failure = MakePipe(0);
  if (!failure.ok()) {
    close(output.read_end);
    close(output.write_end);
    return failure.status();
  }

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    Become(arguments.data(), output.write_end, failure->write_end, parent);
  }
  const int fork_error = errno;
  close(output.write_end);
  close(failure->write_end);
  const int error = pid < 0 ? fork_error : AwaitExec(failure->read_end);
  close(failure->read_end);
  if (error != 0) {
    close(output.read_end);
    if (pid > 0) waitpid(pid, nullptr, 0);
    return absl::ErrnoToStatus(error, absl::StrCat("cannot run ", argv[0]));
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, output.read_end));
}

ChildProcess::~ChildProcess() {
  if (!HasEnded()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(output_fd_);
}

void ChildProcess::AddLine(std::string line, std::vector<std::string>& lines) {
  last_lines_.push_back(line);
  if (last_lines_.size() > kLastLines) last_lines_.pop_front();
  lines.push_back(std::move(line));
}

std::vector<std::string> ChildProcess::TakeLines() {
  std::vector<std::string> lines;
  char bytes[4096];
  ssize_t count;
  while ((count = read(output_fd_, bytes, sizeof(bytes))) > 0) {
    for (const char c : absl::string_view(bytes, count)) {
      if (c != '\n') partial_line_.push_back(c);
      if (c == '\n' || partial_line_.size() >= kMaxLine) {
        AddLine(std::exchange(partial_line_, ""), lines);
      }
    }
  }
  if (ended_ && !partial_line_.empty()) {
    AddLine(std::exchange(partial_line_, ""), lines);
  }
  return lines;
}

void ChildProcess::Signal(int signal) {
  if (!HasEnded()) kill(pid_, signal);
}

bool ChildProcess::HasEnded() {
  if (!ended_) ended_ = waitpid(pid_, &wait_status_, WNOHANG) == pid_;
  return ended_;
}

std::string ChildProcess::HowItEnded() const {
  if (WIFSIGNALED(wait_status_)) {
    const int signal = WTERMSIG(wait_status_);
    return absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
  }
  return absl::StrCat("exit code ", WEXITSTATUS(wait_status_));
}

}  // namespace pipestage
