#ifndef PIPESTAGE_BASE_ERROR_INFO_H_
#define PIPESTAGE_BASE_ERROR_INFO_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/error.pb.h"

namespace pipestage {

// Why a call failed, for programs. Stable: clients compare these.
namespace reason {
inline constexpr absl::string_view kStageFailed = "STAGE_FAILED";
inline constexpr absl::string_view kWorkerLost = "WORKER_LOST";
inline constexpr absl::string_view kWorkersMissing = "WORKERS_MISSING";
inline constexpr absl::string_view kCommunicatorFailed = "COMMUNICATOR_FAILED";
inline constexpr absl::string_view kShapeMismatch = "SHAPE_MISMATCH";
inline constexpr absl::string_view kInvalidInput = "INVALID_INPUT";
inline constexpr absl::string_view kMalformedTensor = "MALFORMED_TENSOR";
inline constexpr absl::string_view kPlanInvalid = "PLAN_INVALID";
inline constexpr absl::string_view kQueueFull = "QUEUE_FULL";
inline constexpr absl::string_view kMessageTooLarge = "MESSAGE_TOO_LARGE";
inline constexpr absl::string_view kModelNotFound = "MODEL_NOT_FOUND";
inline constexpr absl::string_view kModelBroken = "MODEL_BROKEN";
inline constexpr absl::string_view kModelNotLoaded = "MODEL_NOT_LOADED";
inline constexpr absl::string_view kStaleEpoch = "STALE_EPOCH";
inline constexpr absl::string_view kDraining = "DRAINING";
}  // namespace reason

// `status` with an ErrorInfo attached (replacing one it had). Metadata keys in
// use: worker, rank, stage, microbatch, action, expected, actual, model,
// version, file.
absl::Status WithReason(
    absl::Status status, absl::string_view reason,
    std::initializer_list<std::pair<absl::string_view, std::string>> metadata =
        {});

// The ErrorInfo attached to `status`, if any.
std::optional<v1::ErrorInfo> GetErrorInfo(const absl::Status& status);

// Its reason, or "".
std::string GetReason(const absl::Status& status);

// Across a process boundary, ErrorInfo and all. FromRpcStatus of an unset or
// code-0 message is OK.
v1::RpcStatus ToRpcStatus(const absl::Status& status);
absl::Status FromRpcStatus(const v1::RpcStatus& rpc_status);

}  // namespace pipestage

#endif  // PIPESTAGE_BASE_ERROR_INFO_H_
