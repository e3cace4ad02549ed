#ifndef PIPESTAGE_WORKER_TRANSPORT_GLOO_COMMUNICATOR_H_
#define PIPESTAGE_WORKER_TRANSPORT_GLOO_COMMUNICATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/transport/communicator.h"
#include "worker/transport/host_collectives.h"

namespace pipestage {

class GlooGroup;

// A communicator over c10d's Gloo: host memory, TCP, an I/O thread of its own.
//
// Post receives before their sends: then a send is written by the thread that
// calls it, otherwise by the I/O thread after a round trip, and on a busy
// machine after a scheduler's time slice. Small messages are sent as one, large
// ones part by part. A message longer than its receive ends the receiving
// process (Gloo enforces it in its I/O thread), hence the rule on sizes in
// communicator.h. Peers are not authenticated: the network between workers must
// be trusted.
class GlooCommunicator : public Communicator, private CollectiveLane {
 public:
  // Connects to all peers; blocks until all have. The rendezvous must
  // outlive the call only.
  // Errors: InvalidArgument, DeadlineExceeded, Unavailable, or what the
  // rendezvous says.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const CommunicatorOptions& options);

  ~GlooCommunicator() override;

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  absl::string_view backend() const override { return "gloo"; }

  absl::StatusOr<std::unique_ptr<Operation>> Send(
      Rank to, absl::Span<const ConstPart> parts,
      std::shared_ptr<const void> keepalive) override;
  absl::StatusOr<std::unique_ptr<Operation>> Receive(
      Rank from, absl::Span<const MutablePart> parts,
      std::shared_ptr<const void> keepalive) override;

  absl::Status AllReduceSum(MutablePart data, DType dtype) override;
  absl::Status AllGather(ConstPart in, MutablePart out) override;
  absl::Status ReduceScatterSum(ConstPart in, MutablePart out,
                                DType dtype) override;

  void Abort(absl::Status reason) override;

 private:
  GlooCommunicator(const CommunicatorOptions& options,
                   std::shared_ptr<GlooGroup> group);

  Rank lane_rank() const override { return rank_; }
  int lane_size() const override { return size_; }
  absl::StatusOr<std::unique_ptr<Operation>> LaneSend(Rank to,
                                                      ConstPart part) override;
  absl::StatusOr<std::unique_ptr<Operation>> LaneReceive(
      Rank from, MutablePart part) override;
  void LaneAbort(const absl::Status& reason) override;

  const Rank rank_;
  const int size_;
  // Shared with operations, which may outlive us.
  const std::shared_ptr<GlooGroup> group_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_GLOO_COMMUNICATOR_H_
