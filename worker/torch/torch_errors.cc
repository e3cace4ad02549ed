#include "worker/torch/torch_errors.h"

#include <exception>
#include <new>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "c10/util/Exception.h"

namespace pipestage {
namespace {

// LibTorch ends some messages with advice for its own developers.
std::string Trimmed(absl::string_view message) {
  const size_t advice = message.find("Exception raised from");
  if (advice != absl::string_view::npos) message = message.substr(0, advice);
  return std::string(absl::StripAsciiWhitespace(message));
}

absl::Status OutOfMemory(absl::string_view what, absl::string_view message) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": out of memory: ", message));
}

}  // namespace

absl::Status CurrentExceptionStatus(absl::string_view what) {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& e) {
    return OutOfMemory(what, Trimmed(e.what_without_backtrace()));
  } catch (const c10::Error& e) {
    const std::string message = Trimmed(e.what_without_backtrace());
    // The CPU's allocator has no exception of its own.
    if (absl::StrContains(message, "can't allocate memory")) {
      return OutOfMemory(what, message);
    }
    return absl::AbortedError(absl::StrCat(what, ": ", message));
  } catch (const std::bad_alloc& e) {
    return OutOfMemory(what, e.what());
  } catch (const std::exception& e) {
    return absl::AbortedError(absl::StrCat(what, ": ", Trimmed(e.what())));
  } catch (...) {
    return absl::AbortedError(absl::StrCat(what, ": unknown exception"));
  }
}

}  // namespace pipestage
