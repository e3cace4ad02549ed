#ifndef PIPESTAGE_COORDINATOR_RENDEZVOUS_STORE_H_
#define PIPESTAGE_COORDINATOR_RENDEZVOUS_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/membership.h"

namespace pipestage {

// Where the members of one generation leave each other their addresses: small
// values by key. Begun anew for each generation; keys that lack its prefix come
// from the past and are refused.
//
// Thread-compatible.
class RendezvousStore {
 public:
  struct Limits {
    size_t key_bytes = 1024;
    size_t value_bytes = 64 << 10;
    size_t total_bytes = 16 << 20;
    size_t waiting = 4096;
  };
  // Who asked for a key, to be told its value.
  struct Waiter {
    AttachmentId attachment;
    int64_t request_id = 0;
  };

  RendezvousStore() : RendezvousStore(Limits()) {}
  explicit RendezvousStore(Limits limits) : limits_(limits) {}

  // Forgets everything; from now on keys start with `prefix`. An empty prefix
  // closes the store.
  void Begin(std::string prefix);

  // Sets a key (again, if it exists) and returns those who waited for it.
  //
  // Errors:
  //   FailedPrecondition: the key is not of this generation.
  //   ResourceExhausted: a limit is passed.
  absl::StatusOr<std::vector<Waiter>> Set(const std::string& key,
                                          std::string value);

  // The value, or nullopt: then the waiter is returned by the Set to come.
  // Errors as for Set.
  absl::StatusOr<std::optional<std::string>> Get(const std::string& key,
                                                 Waiter waiter);

  size_t size_bytes() const { return size_bytes_; }

 private:
  absl::Status CheckKey(const std::string& key) const;

  const Limits limits_;
  std::string prefix_;
  absl::flat_hash_map<std::string, std::string> values_;
  absl::flat_hash_map<std::string, std::vector<Waiter>> waiters_;
  size_t num_waiting_ = 0;
  size_t size_bytes_ = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_RENDEZVOUS_STORE_H_
