#ifndef PIPESTAGE_WORKER_TORCH_TORCH_ERRORS_H_
#define PIPESTAGE_WORKER_TORCH_TORCH_ERRORS_H_

#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pipestage {

// The exception being handled, as "<what>: <its first lines>":
// ResourceExhausted if memory ran out, else Aborted. Only within a catch block.
absl::Status CurrentExceptionStatus(absl::string_view what);

// Runs `fn`, which returns a Status or a StatusOr, turning what it throws into
// a Status. LibTorch's exceptions go no further than this.
template <typename Fn>
std::invoke_result_t<Fn> CallTorch(absl::string_view what, Fn&& fn) {
  try {
    return std::forward<Fn>(fn)();
  } catch (...) {
    return CurrentExceptionStatus(what);
  }
}

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_TORCH_ERRORS_H_
