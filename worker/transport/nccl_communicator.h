#ifndef PIPESTAGE_WORKER_TRANSPORT_NCCL_COMMUNICATOR_H_
#define PIPESTAGE_WORKER_TRANSPORT_NCCL_COMMUNICATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/transport/communicator.h"

namespace pipestage {

class NcclGroup;

// A communicator over c10d's NCCL, between GPUs. Parts may be in device memory,
// ordered after what is queued on the caller's current stream, or in host
// memory, for which they are staged. When Wait returns, bytes are there for
// every stream.
//
// A receive posted ahead occupies a few multiprocessors of the GPU while it
// waits. NCCL does not notice every lost peer: rely on the timeout and on
// Abort. Sums are NCCL's: in its order of terms, for 16-bit floats rounded at
// each step.
class NcclCommunicator : public Communicator {
 public:
  // CUDA devices this process can use.
  static int DeviceCount();

  // Sets what c10d and CUDA read from the environment, once. Call it in main
  // before there are threads and before CUDA is used; Create does it otherwise.
  static void PrepareProcess();

  // Connects this rank, on CUDA device `device_index`, to all peers. No two
  // ranks of a group may be on one device. Errors: InvalidArgument, also for
  // more than 16 ranks; FailedPrecondition without that device;
  // DeadlineExceeded if a rank does not come; Unavailable. Ends the process if
  // NCCL does not connect the ranks within the options' timeout once they have
  // come: nothing else gets a thread out of it.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const CommunicatorOptions& options, int device_index);

  ~NcclCommunicator() override;

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  absl::string_view backend() const override { return "nccl"; }

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
  NcclCommunicator(const CommunicatorOptions& options,
                   std::shared_ptr<NcclGroup> group);

  const Rank rank_;
  const int size_;
  // Shared with operations, which may outlive us.
  const std::shared_ptr<NcclGroup> group_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_NCCL_COMMUNICATOR_H_
