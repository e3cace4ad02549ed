#ifndef PIPESTAGE_WORKER_TRANSPORT_C10D_ERRORS_H_
#define PIPESTAGE_WORKER_TRANSPORT_C10D_ERRORS_H_

// Where the exceptions of c10d, Gloo and NCCL end.

#include <exception>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "c10/util/Exception.h"

namespace pipestage {

// Runs `fn`, which returns a Status or StatusOr. What c10d throws becomes
// Unavailable
// "<what>: ...": a broken connection is the usual cause, and after any of its
// errors a group must be formed anew.
template <typename Fn>
auto CallC10d(absl::string_view what, Fn&& fn) -> decltype(fn()) {
  try {
    return std::forward<Fn>(fn)();
  } catch (const c10::OutOfMemoryError& e) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, ": ", e.what_without_backtrace()));
  } catch (const c10::Error& e) {
    return absl::UnavailableError(
        absl::StrCat(what, ": ", e.what_without_backtrace()));
  } catch (const std::exception& e) {
    return absl::UnavailableError(absl::StrCat(what, ": ", e.what()));
  } catch (...) {
    return absl::UnavailableError(absl::StrCat(what, ": unknown exception"));
  }
}

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_C10D_ERRORS_H_
