#ifndef PIPESTAGE_BASE_LOG_H_
#define PIPESTAGE_BASE_LOG_H_

// Logging, by spdlog, to standard error. Levels: info one line per event a
// person running the service wants to see; warn for what may heal; error for
// what was lost. Never log tensor contents. Prefixed, for LibTorch owns LOG and
// CHECK.

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "spdlog/spdlog.h"

#define PIPESTAGE_LOG_DEBUG(...) ::spdlog::debug(__VA_ARGS__)
#define PIPESTAGE_LOG_INFO(...) ::spdlog::info(__VA_ARGS__)
#define PIPESTAGE_LOG_WARN(...) ::spdlog::warn(__VA_ARGS__)
#define PIPESTAGE_LOG_ERROR(...) ::spdlog::error(__VA_ARGS__)

// For our own bugs only; bad input is never one.
#define PIPESTAGE_CHECK(condition)                                      \
  do {                                                                  \
    if (!(condition)) {                                                 \
      ::spdlog::critical("{}:{}: check failed: {}", __FILE__, __LINE__, \
                         #condition);                                   \
      ::spdlog::default_logger()->flush();                              \
      ::std::abort();                                                   \
    }                                                                   \
  } while (false)

namespace pipestage {

// Sends all logging to standard error as "time level [process] text". `level`
// is debug, info, warn or error; anything else is InvalidArgument. Call once,
// in main.
absl::Status InitLogging(absl::string_view process, absl::string_view level);

}  // namespace pipestage

#endif  // PIPESTAGE_BASE_LOG_H_
