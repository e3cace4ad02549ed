#ifndef PIPESTAGE_WORKER_TRANSPORT_UNIQUE_FD_H_
#define PIPESTAGE_WORKER_TRANSPORT_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace pipestage {

// A file descriptor that is closed when its owner goes.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) close(fd_);
  }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_UNIQUE_FD_H_
