#ifndef PIPESTAGE_WORKER_TRANSPORT_INPROC_COMMUNICATOR_H_
#define PIPESTAGE_WORKER_TRANSPORT_INPROC_COMMUNICATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/transport/communicator.h"
#include "worker/transport/host_collectives.h"
#include "worker/transport/inproc_hub.h"

namespace pipestage {

// A communicator whose ranks are threads of one process. Host memory only.
//
// The whole contract in memory: a send is done when its receive has its bytes.
// Unlike other backends it notices sizes that differ, and ends both ends with
// Internal.
class InprocCommunicator : public Communicator, private CollectiveLane {
 public:
  // Blocks until all ranks of the group are in Create, each in its thread. They
  // meet through the rendezvous, which must be one of this process.
  // Errors: InvalidArgument, DeadlineExceeded if a rank does not come,
  // FailedPrecondition if rank 0 is another process, or what the rendezvous
  // says.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const CommunicatorOptions& options);

  ~InprocCommunicator() override;

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  absl::string_view backend() const override { return "inproc"; }

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
  InprocCommunicator(const CommunicatorOptions& options,
                     std::shared_ptr<InprocHub> hub);

  Rank lane_rank() const override { return rank_; }
  int lane_size() const override { return size_; }
  absl::StatusOr<std::unique_ptr<Operation>> LaneSend(Rank to,
                                                      ConstPart part) override;
  absl::StatusOr<std::unique_ptr<Operation>> LaneReceive(
      Rank from, MutablePart part) override;
  void LaneAbort(const absl::Status& reason) override;

  std::unique_ptr<Operation> Start(std::shared_ptr<InprocHub::Transfer> posted);

  const Rank rank_;
  const int size_;
  const absl::Duration timeout_;
  // Shared with the other ranks and with operations, which may outlive us.
  const std::shared_ptr<InprocHub> hub_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_INPROC_COMMUNICATOR_H_
