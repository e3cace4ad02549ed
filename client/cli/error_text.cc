#include "client/cli/error_text.h"

#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"

namespace pipestage {
namespace {

std::string NextForReason(absl::string_view reason) {
  if (reason == reason::kModelNotFound) {
    return "`pipestage models` lists what the repository holds";
  }
  if (reason == reason::kModelNotLoaded) {
    return "`pipestage models load NAME[@VERSION]` serves it";
  }
  if (reason == reason::kWorkersMissing) {
    return "`pipestage status` shows which workers are there";
  }
  if (reason == reason::kWorkerLost || reason == reason::kCommunicatorFailed) {
    return "repeat the call, it is safe to; `pipestage status` shows when the "
           "pipeline is READY again";
  }
  if (reason == reason::kQueueFull || reason == reason::kDraining) {
    return "try again later";
  }
  if (reason == reason::kShapeMismatch || reason == reason::kInvalidInput) {
    return "`pipestage models show NAME` tells what the model takes";
  }
  if (reason == reason::kStageFailed) {
    return "look at the inputs of that microbatch, and at the worker's log";
  }
  return "";
}

std::string NextForCode(absl::StatusCode code, absl::string_view address) {
  if (code == absl::StatusCode::kUnavailable) {
    return absl::StrCat("does a coordinator listen at ", address,
                        "? `pipestage up --workers N` starts one; --address "
                        "or PIPESTAGE_ADDRESS names another");
  }
  if (code == absl::StatusCode::kDeadlineExceeded) {
    return "allow more with --timeout; `pipestage status` shows what is busy";
  }
  return "";
}

}  // namespace

std::string ErrorText(const absl::Status& status, absl::string_view address) {
  std::string text =
      absl::StrCat("pipestage: ", absl::StatusCodeToString(status.code()), ": ",
                   status.message(), "\n");
  const std::optional<v1::ErrorInfo> info = GetErrorInfo(status);
  std::string next;
  if (info.has_value()) {
    absl::StrAppend(&text, "  reason: ", info->reason());
    // In an order that does not change from run to run.
    const std::map<std::string, std::string> where(info->metadata().begin(),
                                                   info->metadata().end());
    for (const auto& [key, value] : where) {
      absl::StrAppend(&text, ", ", key, " ", value);
    }
    absl::StrAppend(&text, "\n");
    next = NextForReason(info->reason());
  } else {
    next = NextForCode(status.code(), address);
  }
  if (!next.empty()) absl::StrAppend(&text, "  next: ", next, "\n");
  return text;
}

}  // namespace pipestage
