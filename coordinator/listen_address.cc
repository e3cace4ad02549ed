#include "coordinator/listen_address.h"

#include <arpa/inet.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace pipestage {
namespace {

bool IsLoopback(absl::string_view host) {
  if (host == "localhost" || host == "[::1]") return true;
  // Spelt as a number: "127.evil.example" is a name that resolves to anything.
  in_addr parsed;
  return inet_pton(AF_INET, std::string(host).c_str(), &parsed) == 1 &&
         ntohl(parsed.s_addr) >> 24 == 127;
}

}  // namespace

absl::Status CheckLoopback(absl::string_view address) {
  if (absl::StartsWith(address, "unix:")) return absl::OkStatus();
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 ||
      colon + 1 == address.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is not HOST:PORT"));
  }
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", address, "\": the port must be a number from 0 to 65535"));
  }
  if (IsLoopback(address.substr(0, colon))) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      address.substr(0, colon),
      " can be reached from other machines, and there is no authentication; "
      "--unsafe-listen-anywhere allows it"));
}

}  // namespace pipestage
