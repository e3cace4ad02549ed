#include "base/error_info.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/plain_text.h"

namespace pipestage {
namespace {

constexpr absl::string_view kTypeUrl =
    "type.googleapis.com/google.rpc.ErrorInfo";

// gRPC drops trailers beyond its limit of 8 KiB, and with them the whole error.
// The message travels twice: as itself, and in the details, which are base64.
constexpr size_t kMaxMessageBytes = 2048;
constexpr size_t kMaxValueBytes = 256;

std::string Truncated(absl::string_view message) {
  return ShortenedForTrailer(message, kMaxMessageBytes);
}

}  // namespace

absl::Status WithReason(
    absl::Status status, absl::string_view reason,
    std::initializer_list<std::pair<absl::string_view, std::string>> metadata) {
  if (status.ok()) return status;
  v1::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain("pipestage");
  for (const auto& [key, value] : metadata) {
    (*info.mutable_metadata())[std::string(key)] =
        ShortenedForTrailer(value, kMaxValueBytes);
  }
  status.SetPayload(kTypeUrl, absl::Cord(info.SerializeAsString()));
  return status;
}

std::optional<v1::ErrorInfo> GetErrorInfo(const absl::Status& status) {
  const auto payload = status.GetPayload(kTypeUrl);
  v1::ErrorInfo info;
  if (!payload || !info.ParseFromString(std::string(*payload))) {
    return std::nullopt;
  }
  return info;
}

std::string GetReason(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  return info ? info->reason() : "";
}

v1::RpcStatus ToRpcStatus(const absl::Status& status) {
  v1::RpcStatus out;
  out.set_code(static_cast<int>(status.code()));
  out.set_message(Truncated(status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    auto* detail = out.add_details();
    detail->set_type_url(std::string(url));
    detail->set_value(std::string(payload));
  });
  return out;
}

absl::Status FromRpcStatus(const v1::RpcStatus& rpc_status) {
  if (rpc_status.code() == 0) return absl::OkStatus();
  const bool known = rpc_status.code() > 0 && rpc_status.code() <= 16;
  absl::Status status(known ? static_cast<absl::StatusCode>(rpc_status.code())
                            : absl::StatusCode::kUnknown,
                      rpc_status.message());
  for (const auto& detail : rpc_status.details()) {
    status.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return status;
}

}  // namespace pipestage
