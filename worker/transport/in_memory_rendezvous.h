#ifndef PIPESTAGE_WORKER_TRANSPORT_IN_MEMORY_RENDEZVOUS_H_
#define PIPESTAGE_WORKER_TRANSPORT_IN_MEMORY_RENDEZVOUS_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/transport/rendezvous.h"

namespace pipestage {

// A rendezvous for members that live in one process.
//
// Thread-safe. Must outlive the Gets under way: Close and join their threads
// first.
class InMemoryRendezvous : public Rendezvous {
 public:
  // Cancelled after Close. A key may be set again; readers see the latest
  // value.
  absl::Status Set(const std::string& key, std::string value) override;
  absl::StatusOr<std::string> Get(const std::string& key,
                                  absl::Duration timeout) override;

  // Ends all Gets, under way and to come, with Cancelled. Idempotent.
  void Close();

 private:
  absl::Mutex mu_;
  absl::flat_hash_map<std::string, std::string> values_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_IN_MEMORY_RENDEZVOUS_H_
