#include "worker/transport/nccl_communicator.h"

#include <stdlib.h>

#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "c10/cuda/CUDAFunctions.h"
#include "worker/transport/c10d_errors.h"
#include "worker/transport/nccl_group.h"
#include "worker/transport/rendezvous_store.h"
#include "worker/transport/transport_arguments.h"

namespace pipestage {
namespace {

// NCCL has no 16-bit integers: their sums are taken in 32 bits, whose low half
// is the sum that wraps.
absl::StatusOr<at::ScalarType> SummableType(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return at::kByte;
    case DType::kInt8:
      return at::kChar;
    case DType::kInt16:
      return at::kShort;
    case DType::kInt32:
      return at::kInt;
    case DType::kInt64:
      return at::kLong;
    case DType::kFloat16:
      return at::kHalf;
    case DType::kBFloat16:
      return at::kBFloat16;
    case DType::kFloat32:
      return at::kFloat;
    case DType::kFloat64:
      return at::kDouble;
    case DType::kBool:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(DTypeName(dtype), " elements have no sum"));
}

// Blocks until every rank has come this far: NCCL waits without end for a rank
// that does not come.
absl::Status MeetAll(const CommunicatorOptions& options) {
  const auto key = [&](int rank) {
    return absl::StrCat(options.prefix, "/here/", rank);
  };
  PIPESTAGE_RETURN_IF_ERROR(
      options.rendezvous->Set(key(options.rank.value()), "1"));
  const absl::Time deadline = absl::Now() + options.timeout;
  for (int rank = 0; rank < options.size; ++rank) {
    PIPESTAGE_RETURN_IF_ERROR(
        options.rendezvous->Get(key(rank), deadline - absl::Now()).status());
  }
  return absl::OkStatus();
}

// While it lives, the process has `limit` to get on. A rank that dies after all
// have met leaves the others within NCCL's handshake, which nothing ends;
// whoever supervises this process starts it again.
class ConnectLimit {
 public:
  explicit ConnectLimit(absl::Duration limit)
      : watch_([this, limit] {
          if (done_.WaitForNotificationWithTimeout(limit)) return;
          PIPESTAGE_LOG_ERROR(
              "NCCL has not connected all ranks within {}: a rank was lost, or "
              "its device hangs; this process ends, to be started again",
              absl::FormatDuration(limit));
          std::_Exit(1);
        }) {}
  ~ConnectLimit() {
    done_.Notify();
    watch_.join();
  }

 private:
  absl::Notification done_;
  std::thread watch_;
};

absl::Status CheckDevice(int device_index) {
  const int count = NcclCommunicator::DeviceCount();
  if (device_index >= 0 && device_index < count) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("there is no CUDA device ", device_index,
                   "; this process can use ", count));
}

}  // namespace

int NcclCommunicator::DeviceCount() {
  // Neither throws nor makes a context where there is no driver.
  return c10::cuda::device_count();
}

void NcclCommunicator::PrepareProcess() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Without it c10d starts a thread per group that ends the process when an
    // operation times out. We wait, time out and abort ourselves.
    setenv("TORCH_NCCL_BLOCKING_WAIT", "1", /*overwrite=*/1);
    setenv("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "0",
           /*overwrite=*/1);
    // Streams that share a hardware queue wait for each other, and a receive
    // posted ahead may wait long.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  });
}

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::Create(
    const CommunicatorOptions& options, int device_index) {
  PIPESTAGE_RETURN_IF_ERROR(CheckCommunicatorOptions(options));
  if (options.size > NcclGroup::kMaxSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("a group of ", options.size, " ranks; NCCL groups have ",
                     NcclGroup::kMaxSize, " at most"));
  }
  PrepareProcess();
  PIPESTAGE_RETURN_IF_ERROR(CheckDevice(device_index));
  PIPESTAGE_RETURN_IF_ERROR(MeetAll(options));
  auto store =
      c10::make_intrusive<RendezvousStore>(options.rendezvous, options.timeout);
  const ConnectLimit limit(options.timeout);
  auto group =
      CallC10d("forming an NCCL group",
               [&]() -> absl::StatusOr<std::shared_ptr<NcclGroup>> {
                 return NcclGroup::Connect(options, device_index, store);
               });
  store->Disconnect();
  PIPESTAGE_RETURN_IF_ERROR(store->status());
  PIPESTAGE_RETURN_IF_ERROR(group.status());
  return std::unique_ptr<Communicator>(
      new NcclCommunicator(options, *std::move(group)));
}

NcclCommunicator::NcclCommunicator(const CommunicatorOptions& options,
                                   std::shared_ptr<NcclGroup> group)
    : rank_(options.rank), size_(options.size), group_(std::move(group)) {}

NcclCommunicator::~NcclCommunicator() {
  group_->End(absl::CancelledError("the communicator was destroyed"));
}

absl::StatusOr<std::unique_ptr<Operation>> NcclCommunicator::Send(
    Rank to, absl::Span<const ConstPart> parts,
    std::shared_ptr<const void> keepalive) {
  PIPESTAGE_RETURN_IF_ERROR(CheckPeer(rank_, to, size_));
  return group_->Send(to, parts, std::move(keepalive));
}

absl::StatusOr<std::unique_ptr<Operation>> NcclCommunicator::Receive(
    Rank from, absl::Span<const MutablePart> parts,
    std::shared_ptr<const void> keepalive) {
  PIPESTAGE_RETURN_IF_ERROR(CheckPeer(rank_, from, size_));
  return group_->Receive(from, parts, std::move(keepalive));
}

absl::Status NcclCommunicator::AllReduceSum(MutablePart data, DType dtype) {
  PIPESTAGE_ASSIGN_OR_RETURN(const at::ScalarType type, SummableType(dtype));
  PIPESTAGE_RETURN_IF_ERROR(CheckWholeElements(data.size, dtype));
  if (data.size == 0) return absl::OkStatus();
  return group_->Collect(
      {data.data, data.size, data.device}, data, type,
      [](c10d::ProcessGroupNCCL& nccl, at::Tensor& in, at::Tensor& out) {
        const bool widen = in.scalar_type() == at::kShort;
        std::vector<at::Tensor> sum = {widen ? in.to(at::kInt) : in};
        auto work = nccl.allreduce(sum);
        if (sum[0].data_ptr() != out.data_ptr()) {
          work->synchronize();
          out.copy_(sum[0]);
        }
        return work;
      });
}

absl::Status NcclCommunicator::AllGather(ConstPart in, MutablePart out) {
  PIPESTAGE_RETURN_IF_ERROR(CheckAllGatherSizes(in.size, out.size, size_));
  if (in.size == 0) return absl::OkStatus();
  return group_->Collect(
      in, out, at::kByte,
      [](c10d::ProcessGroupNCCL& nccl, at::Tensor& in, at::Tensor& out) {
        return nccl.all_gather_single(out, in);
      });
}

absl::Status NcclCommunicator::ReduceScatterSum(ConstPart in, MutablePart out,
                                                DType dtype) {
  PIPESTAGE_ASSIGN_OR_RETURN(const at::ScalarType type, SummableType(dtype));
  PIPESTAGE_RETURN_IF_ERROR(CheckWholeElements(out.size, dtype));
  PIPESTAGE_RETURN_IF_ERROR(CheckReduceScatterSizes(in.size, out.size, size_));
  if (out.size == 0) return absl::OkStatus();
  return group_->Collect(
      in, out, type,
      [](c10d::ProcessGroupNCCL& nccl, at::Tensor& in, at::Tensor& out) {
        const bool widen = in.scalar_type() == at::kShort;
        at::Tensor terms = widen ? in.to(at::kInt) : in;
        at::Tensor sum = widen ? out.to(at::kInt) : out;
        auto work = nccl.reduce_scatter_single(sum, terms);
        if (widen) {
          work->synchronize();
          out.copy_(sum);
        }
        return work;
      });
}

void NcclCommunicator::Abort(absl::Status reason) {
  group_->BeginEnd(std::move(reason));
}

}  // namespace pipestage
