#ifndef PIPESTAGE_WORKER_TRANSPORT_TCP_COMMUNICATOR_H_
#define PIPESTAGE_WORKER_TRANSPORT_TCP_COMMUNICATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/transport/communicator.h"
#include "worker/transport/host_collectives.h"
#include "worker/transport/tcp_group.h"

namespace pipestage {

// A communicator over TCP without an I/O thread in the way: sends are written
// by the thread that calls Send, receives read by the thread that waits. Host
// memory only.
//
// A send is done when the kernel has its bytes, which may be long before they
// are received. Sizes that differ end the receiver's communicator with
// Internal. Peers prove that they come from the rendezvous; what is sent is not
// encrypted.
class TcpCommunicator : public Communicator, private CollectiveLane {
 public:
  // Connects to all peers; blocks until all have. The rendezvous must
  // outlive the call only.
  // Errors: InvalidArgument, DeadlineExceeded, Unavailable, or what the
  // rendezvous says.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const CommunicatorOptions& options);

  ~TcpCommunicator() override;

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  absl::string_view backend() const override { return "tcp"; }

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
  TcpCommunicator(const CommunicatorOptions& options,
                  std::shared_ptr<TcpGroup> group);

  Rank lane_rank() const override { return rank_; }
  int lane_size() const override { return size_; }
  absl::StatusOr<std::unique_ptr<Operation>> LaneSend(Rank to,
                                                      ConstPart part) override;
  absl::StatusOr<std::unique_ptr<Operation>> LaneReceive(
      Rank from, MutablePart part) override;
  void LaneAbort(const absl::Status& reason) override;

  std::unique_ptr<Operation> Start(TcpGroup::Lane lane,
                                   std::shared_ptr<TcpTransfer> transfer);

  const Rank rank_;
  const int size_;
  // Shared with operations, which may outlive us.
  const std::shared_ptr<TcpGroup> group_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_TCP_COMMUNICATOR_H_
