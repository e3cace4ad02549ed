#ifndef PIPESTAGE_WORKER_TRANSPORT_NCCL_GROUP_H_
#define PIPESTAGE_WORKER_TRANSPORT_NCCL_GROUP_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "c10/cuda/CUDAStream.h"
#include "torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp"
#include "worker/transport/communicator.h"
#include "worker/transport/rendezvous_store.h"

namespace pipestage {

// The NCCL communicators of one rank: one over all ranks for collectives and
// one for each ordered pair of ranks.
//
// NCCL has no tags, and operations of one communicator run one after the other:
// a receive posted ahead would hold up the send behind it, and two ranks that
// both receive first would wait for ever. With a communicator and streams per
// direction they cannot.
//
// Thread-safe, except that one thread at a time starts operations.
class NcclGroup : public std::enable_shared_from_this<NcclGroup> {
 public:
  // Two CUDA streams a pair, from LibTorch's pools of 32: more ranks would
  // share.
  static constexpr int kMaxSize = 16;

  // A communicator and the stream beside NCCL's own on which staging copies
  // run.
  struct Link {
    c10::intrusive_ptr<c10d::ProcessGroupNCCL> process_group;
    c10::cuda::CUDAStream stream;
  };

  // Connects everything and sends a first message over each, for NCCL sets
  // connections up when they are first used. May throw what c10d throws.
  static std::shared_ptr<NcclGroup> Connect(
      const CommunicatorOptions& options, int device_index,
      const c10::intrusive_ptr<RendezvousStore>& store);

  // Ended before.
  ~NcclGroup();

  absl::StatusOr<std::unique_ptr<Operation>> Send(
      Rank to, absl::Span<const ConstPart> parts,
      std::shared_ptr<const void> keepalive);
  absl::StatusOr<std::unique_ptr<Operation>> Receive(
      Rank from, absl::Span<const MutablePart> parts,
      std::shared_ptr<const void> keepalive);

  // Runs `collective` on tensors that hold `in` and `out` in device memory,
  // waits, and brings `out` back where it is in host memory. The two may be the
  // same.
  using Collective = absl::FunctionRef<c10::intrusive_ptr<c10d::Work>(
      c10d::ProcessGroupNCCL&, at::Tensor& in, at::Tensor& out)>;
  absl::Status Collect(ConstPart in, MutablePart out, at::ScalarType type,
                       Collective collective);

  // Begins to end operations under way and to come with `reason`, and returns:
  // NCCL may take seconds. They return it when NCCL no longer touches any
  // memory. The first reason counts.
  void BeginEnd(absl::Status reason);
  // The same, and waits for it.
  void End(absl::Status reason);

 private:
  class NcclOperation;

  NcclGroup(Rank rank, int device_index, absl::Duration timeout)
      : rank_(rank), device_(at::kCUDA, device_index), timeout_(timeout) {}

  // OK, or why the group has ended; waits while another thread ends it.
  absl::Status Ended() const;
  std::vector<c10::intrusive_ptr<c10d::ProcessGroupNCCL>> ProcessGroups() const;
  void AbortAll(absl::Status reason);
  void ConnectPairs(const CommunicatorOptions& options,
                    const c10::intrusive_ptr<RendezvousStore>& store);
  absl::Status Fail(absl::Status status);

  const Rank rank_;
  const at::Device device_;
  const absl::Duration timeout_;
  // Set while connecting, then constant.
  std::vector<Link> all_;        // one
  std::vector<Link> to_, from_;  // by peer; our own place holds the link to all

  mutable absl::Mutex mu_;
  bool is_ending_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status ended_ ABSL_GUARDED_BY(mu_);  // set when all are aborted
  std::thread ender_ ABSL_GUARDED_BY(mu_);   // of BeginEnd
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TRANSPORT_NCCL_GROUP_H_
