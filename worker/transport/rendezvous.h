#ifndef PIPESTAGE_WORKER_TRANSPORT_RENDEZVOUS_H_
#define PIPESTAGE_WORKER_TRANSPORT_RENDEZVOUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace pipestage {

// Where the members of a communicator find each other: a store of small values
// shared by all of them. In a worker it is carried on the coordinator's
// channel, so that nothing listens for it. Thread-safe.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  virtual absl::Status Set(const std::string& key, std::string value) = 0;
  // Blocks until the key exists. DeadlineExceeded after `timeout`; Cancelled if
  // the store goes away.
  virtual absl::StatusOr<std::string> Get(const std::string& key,
                                          absl::Duration timeout) = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_RENDEZVOUS_H_
