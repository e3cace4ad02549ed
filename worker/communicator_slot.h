#ifndef PIPESTAGE_WORKER_COMMUNICATOR_SLOT_H_
#define PIPESTAGE_WORKER_COMMUNICATOR_SLOT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/ids.h"
#include "proto/worker_link.pb.h"
#include "worker/link_rendezvous.h"
#include "worker/outbox.h"
#include "worker/transport/communicator.h"

namespace pipestage {

// Makes a communicator of the named backend. Blocks until all ranks are there.
using CommunicatorFactory =
    std::function<absl::StatusOr<std::unique_ptr<Communicator>>(
        const std::string& backend, const CommunicatorOptions& options)>;

// The current communicator where both threads reach it: the compute thread
// forms and uses it, the link's thread ends it, also while it waits for the
// other ranks at the rendezvous. What a backend does after that (NCCL's own
// handshake) ends only by itself or by its timeout.
//
// Thread-safe.
class CommunicatorSlot {
 public:
  // `outbox` carries the rendezvous; not owned. `host` and `network_interface`
  // are those of CommunicatorOptions.
  CommunicatorSlot(Outbox* outbox, CommunicatorFactory factory,
                   std::string host, std::string network_interface)
      : outbox_(outbox),
        factory_(std::move(factory)),
        host_(std::move(host)),
        network_interface_(std::move(network_interface)) {}

  // Link's thread. Ends what was before and lets Form of this generation begin.
  void Expect(Generation generation);

  // Compute thread. Blocks until the communicator is formed. Cancelled if its
  // generation is not (or no longer) the expected one.
  absl::StatusOr<std::shared_ptr<Communicator>> Form(
      const v1::FormCommunicator& form);

  // Ends the generations up to this one: what they have under way returns
  // `reason`.
  void End(Generation last, const absl::Status& reason);

  // A value for the rendezvous under way.
  void OnValue(v1::StoreValue value);

 private:
  Outbox* const outbox_;
  const CommunicatorFactory factory_;
  const std::string host_;
  const std::string network_interface_;

  absl::Mutex mu_;
  Generation generation_ ABSL_GUARDED_BY(mu_) = Generation(-1);
  // Of the generation; null once it has ended.
  std::shared_ptr<LinkRendezvous> rendezvous_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Communicator> communicator_ ABSL_GUARDED_BY(mu_);
  int64_t num_rendezvous_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_COMMUNICATOR_SLOT_H_
