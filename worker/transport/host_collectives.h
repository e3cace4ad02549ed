#ifndef PIPESTAGE_WORKER_TRANSPORT_HOST_COLLECTIVES_H_
#define PIPESTAGE_WORKER_TRANSPORT_HOST_COLLECTIVES_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "tensor/dtype.h"
#include "worker/transport/communicator.h"

namespace pipestage {

// Messages of one part between ranks, apart from those of Send and Receive, so
// that receives posted ahead do not take what a collective sends. Ordered per
// pair.
class CollectiveLane {
 public:
  virtual ~CollectiveLane() = default;

  virtual Rank lane_rank() const = 0;
  virtual int lane_size() const = 0;
  virtual absl::StatusOr<std::unique_ptr<Operation>> LaneSend(
      Rank to, ConstPart part) = 0;
  virtual absl::StatusOr<std::unique_ptr<Operation>> LaneReceive(
      Rank from, MutablePart part) = 0;
  // Ends the communicator, so that operations under way may be dropped.
  virtual void LaneAbort(const absl::Status& reason) = 0;
};

// Communicator's collectives in host memory, over point-to-point messages.
//
// Each rank sums its share of the elements, with the terms in the order of
// ranks: a result has the same bits on every rank, on every host backend, and
// every time. Abort and timeout act on them as on any message, which c10d's own
// Gloo collectives do not offer.
//
// Errors: InvalidArgument before anything is sent; otherwise as
// Operation::Wait.
absl::Status HostAllReduceSum(CollectiveLane& lane, MutablePart data,
                              DType dtype);
absl::Status HostAllGather(CollectiveLane& lane, ConstPart in, MutablePart out);
// `out` may be this rank's share of `in`.
absl::Status HostReduceScatterSum(CollectiveLane& lane, ConstPart in,
                                  MutablePart out, DType dtype);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_HOST_COLLECTIVES_H_
