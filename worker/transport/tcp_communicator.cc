#include "worker/transport/tcp_communicator.h"

#include <utility>

#include "base/status_macros.h"
#include "worker/transport/tcp_mesh.h"
#include "worker/transport/transport_arguments.h"

namespace pipestage {
namespace {

template <typename Part>
std::shared_ptr<TcpTransfer> MakeTransfer(
    bool is_send, Rank peer, absl::Span<const Part> parts,
    std::shared_ptr<const void> keepalive) {
  auto transfer = std::make_shared<TcpTransfer>();
  transfer->is_send = is_send;
  transfer->peer = peer;
  for (const Part& part : parts) {
    transfer->AddPart(const_cast<void*>(part.data), part.size);
  }
  if (is_send) transfer->length = transfer->expected_length;
  transfer->keepalive = std::move(keepalive);
  return transfer;
}

class TcpOperation : public Operation {
 public:
  TcpOperation(std::shared_ptr<TcpGroup> group, TcpGroup::Lane lane,
               std::shared_ptr<TcpTransfer> transfer)
      : group_(std::move(group)), lane_(lane), transfer_(std::move(transfer)) {}

  absl::Status Wait() override { return group_->Wait(lane_, *transfer_); }

 private:
  const std::shared_ptr<TcpGroup> group_;
  const TcpGroup::Lane lane_;
  const std::shared_ptr<TcpTransfer> transfer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> TcpCommunicator::Create(
    const CommunicatorOptions& options) {
  PIPESTAGE_RETURN_IF_ERROR(CheckCommunicatorOptions(options));
  PIPESTAGE_ASSIGN_OR_RETURN(std::vector<UniqueFd> sockets,
                             ConnectTcpMesh(options, TcpGroup::kLanes));
  auto group = std::make_shared<TcpGroup>(std::move(sockets), options.size,
                                          options.timeout);
  return std::unique_ptr<Communicator>(
      new TcpCommunicator(options, std::move(group)));
}

TcpCommunicator::TcpCommunicator(const CommunicatorOptions& options,
                                 std::shared_ptr<TcpGroup> group)
    : rank_(options.rank), size_(options.size), group_(std::move(group)) {}

TcpCommunicator::~TcpCommunicator() {
  group_->End(absl::CancelledError("the communicator was destroyed"));
}

absl::StatusOr<std::unique_ptr<Operation>> TcpCommunicator::Send(
    Rank to, absl::Span<const ConstPart> parts,
    std::shared_ptr<const void> keepalive) {
  PIPESTAGE_RETURN_IF_ERROR(CheckPeer(rank_, to, size_));
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), parts));
  return Start(TcpGroup::Lane::kMessages,
               MakeTransfer(/*is_send=*/true, to, parts, std::move(keepalive)));
}

absl::StatusOr<std::unique_ptr<Operation>> TcpCommunicator::Receive(
    Rank from, absl::Span<const MutablePart> parts,
    std::shared_ptr<const void> keepalive) {
  PIPESTAGE_RETURN_IF_ERROR(CheckPeer(rank_, from, size_));
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), parts));
  return Start(
      TcpGroup::Lane::kMessages,
      MakeTransfer(/*is_send=*/false, from, parts, std::move(keepalive)));
}

absl::Status TcpCommunicator::AllReduceSum(MutablePart data, DType dtype) {
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {data}));
  return HostAllReduceSum(*this, data, dtype);
}

absl::Status TcpCommunicator::AllGather(ConstPart in, MutablePart out) {
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {in}));
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {out}));
  return HostAllGather(*this, in, out);
}

absl::Status TcpCommunicator::ReduceScatterSum(ConstPart in, MutablePart out,
                                               DType dtype) {
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {in}));
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {out}));
  return HostReduceScatterSum(*this, in, out, dtype);
}

void TcpCommunicator::Abort(absl::Status reason) {
  group_->End(std::move(reason));
}

absl::StatusOr<std::unique_ptr<Operation>> TcpCommunicator::LaneSend(
    Rank to, ConstPart part) {
  return Start(TcpGroup::Lane::kCollectives,
               MakeTransfer<ConstPart>(/*is_send=*/true, to, {part},
                                       /*keepalive=*/nullptr));
}

absl::StatusOr<std::unique_ptr<Operation>> TcpCommunicator::LaneReceive(
    Rank from, MutablePart part) {
  return Start(TcpGroup::Lane::kCollectives,
               MakeTransfer<MutablePart>(/*is_send=*/false, from, {part},
                                         /*keepalive=*/nullptr));
}

void TcpCommunicator::LaneAbort(const absl::Status& reason) {
  group_->End(reason);
}

std::unique_ptr<Operation> TcpCommunicator::Start(
    TcpGroup::Lane lane, std::shared_ptr<TcpTransfer> transfer) {
  group_->Start(lane, transfer);
  return std::make_unique<TcpOperation>(group_, lane, std::move(transfer));
}

}  // namespace pipestage
