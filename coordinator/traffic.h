#ifndef PIPESTAGE_COORDINATOR_TRAFFIC_H_
#define PIPESTAGE_COORDINATOR_TRAFFIC_H_

#include <atomic>
#include <cstdint>

#include "proto/status_service.pb.h"
#include "proto/worker_link.pb.h"

namespace pipestage {

// Counts what goes over the worker links, control apart from payload, so that
// "control messages do not grow with microbatches" can be seen and tested.
//
// Control messages are Run, InstallPlan, Cancel, CallFailed and CallDone; the
// tensor bytes and per-microbatch results that ride on them are payload.
// Membership, pings, rendezvous and loading are not of calls and are not
// counted.
//
// Thread-safe.
class Traffic {
 public:
  void CountSent(const v1::CoordinatorMessage& message, size_t bytes);
  void CountFeedSent(size_t bytes);
  void CountReceived(const v1::WorkerMessage& message, size_t bytes);

  v1::TrafficStatus status() const;

 private:
  std::atomic<int64_t> control_messages_sent_ = 0;
  std::atomic<int64_t> control_bytes_sent_ = 0;
  std::atomic<int64_t> control_messages_received_ = 0;
  std::atomic<int64_t> control_bytes_received_ = 0;
  std::atomic<int64_t> payload_bytes_sent_ = 0;
  std::atomic<int64_t> payload_bytes_received_ = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_TRAFFIC_H_
