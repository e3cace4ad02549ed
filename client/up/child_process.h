#ifndef PIPESTAGE_CLIENT_UP_CHILD_PROCESS_H_
#define PIPESTAGE_CLIENT_UP_CHILD_PROCESS_H_

#include <sys/types.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace pipestage {

// A process we started, and what it prints. It has no standard input; standard
// output and error come through one pipe. It is in a process group of its own,
// so that Ctrl-C reaches only us, and dies with the thread that started it.
//
// Thread-compatible: made, used and destroyed by one thread.
class ChildProcess {
 public:
  // `argv[0]` is the path of the program. NotFound, PermissionDenied ... if it
  // cannot be executed.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& argv);

  // Kills it if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Readable when there is output. For poll().
  int output_fd() const { return output_fd_; }

  // The lines it has completed since the last call. Does not block.
  std::vector<std::string> TakeLines();
  // The last few lines of all, for telling why it ended.
  const std::deque<std::string>& last_lines() const { return last_lines_; }

  void Signal(int signal);

  // Whether it has ended by now. Does not block.
  bool HasEnded();
  // "exit code 3", "signal 9 (Killed)". Once it has ended.
  std::string HowItEnded() const;

 private:
  ChildProcess(pid_t pid, int output_fd) : pid_(pid), output_fd_(output_fd) {}

  void AddLine(std::string line, std::vector<std::string>& lines);

  const pid_t pid_;
  const int output_fd_;
  bool ended_ = false;
  int wait_status_ = 0;
  std::string partial_line_;
  std::deque<std::string> last_lines_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_UP_CHILD_PROCESS_H_
