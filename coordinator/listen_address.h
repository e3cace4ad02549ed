#ifndef PIPESTAGE_COORDINATOR_LISTEN_ADDRESS_H_
#define PIPESTAGE_COORDINATOR_LISTEN_ADDRESS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pipestage {

// OK if `address` ("127.0.0.1:7070", "[::1]:0", "localhost:7070", "unix:/path")
// can be reached from this machine alone.
//
// Errors: InvalidArgument if it is not HOST:PORT; FailedPrecondition if others
// could connect, for there is no authentication.
absl::Status CheckLoopback(absl::string_view address);

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_LISTEN_ADDRESS_H_
