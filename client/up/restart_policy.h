#ifndef PIPESTAGE_CLIENT_UP_RESTART_POLICY_H_
#define PIPESTAGE_CLIENT_UP_RESTART_POLICY_H_

#include <algorithm>
#include <optional>

#include "absl/time/time.h"

namespace pipestage {

// When to start a process again that has ended by itself.
//
// Thread-compatible. A value for each process.
class RestartPolicy {
 public:
  struct Options {
    absl::Duration first_delay = absl::Milliseconds(200);
    absl::Duration max_delay = absl::Seconds(10);  // delays double up to this
    // Who has lived for so long starts afresh.
    absl::Duration settled = absl::Seconds(10);
    // Who ends that often in a row before it has settled is given up.
    int max_early_ends = 6;
  };

  explicit RestartPolicy(const Options& options) : options_(options) {}

  // How long to wait before the next start; nothing: give up.
  std::optional<absl::Duration> OnEnd(absl::Duration lived) {
    if (lived >= options_.settled) early_ends_ = 0;
    if (++early_ends_ >= options_.max_early_ends) return std::nullopt;
    absl::Duration delay = options_.first_delay;
    for (int i = 1; i < early_ends_ && delay < options_.max_delay; ++i) {
      delay *= 2;
    }
    return std::min(delay, options_.max_delay);
  }

  int early_ends() const { return early_ends_; }

 private:
  Options options_;
  int early_ends_ = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_UP_RESTART_POLICY_H_
