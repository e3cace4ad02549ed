#ifndef PIPESTAGE_WORKER_OUTBOX_H_
#define PIPESTAGE_WORKER_OUTBOX_H_

#include "proto/worker_link.pb.h"

namespace pipestage {

// Takes messages for the coordinator. Thread-safe.
class Outbox {
 public:
  virtual ~Outbox() = default;

  // Messages arrive in the order in which they were given. One that cannot be
  // delivered is dropped: whoever loses the coordinator is told so elsewhere. A
  // large message may block until earlier ones have left; a small one does not.
  virtual void Send(v1::WorkerMessage message) = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_OUTBOX_H_
