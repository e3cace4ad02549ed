#ifndef PIPESTAGE_WORKER_LINK_RENDEZVOUS_H_
#define PIPESTAGE_WORKER_LINK_RENDEZVOUS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/worker_link.pb.h"
#include "worker/outbox.h"
#include "worker/transport/rendezvous.h"

namespace pipestage {

// The rendezvous of one generation, kept by the coordinator and carried on its
// channel, so that nothing listens for it. Thread-safe.
class LinkRendezvous : public Rendezvous {
 public:
  // Request ids count up from `first_request_id`: answers to those of other
  // rendezvous are told apart by them. `outbox` is not owned.
  LinkRendezvous(Outbox* outbox, int64_t first_request_id)
      : outbox_(outbox), next_request_id_(first_request_id) {}

  absl::Status Set(const std::string& key, std::string value) override;
  absl::StatusOr<std::string> Get(const std::string& key,
                                  absl::Duration timeout) override;

  // The coordinator's answer; one that nobody waits for is passed over.
  void OnValue(v1::StoreValue value);
  // Ends what waits and what comes with Cancelled.
  void Close(absl::string_view reason);

 private:
  Outbox* const outbox_;
  absl::Mutex mu_;
  int64_t next_request_id_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, std::optional<std::string>> waiting_ ABSL_GUARDED_BY(mu_);
  absl::Status closed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_LINK_RENDEZVOUS_H_
