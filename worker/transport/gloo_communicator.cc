#include "worker/transport/gloo_communicator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "torch/csrc/distributed/c10d/PrefixStore.hpp"
#include "torch/csrc/distributed/c10d/ProcessGroupGloo.hpp"
#include "worker/transport/c10d_errors.h"
#include "worker/transport/gloo_group.h"
#include "worker/transport/rendezvous_store.h"
#include "worker/transport/transport_arguments.h"

namespace pipestage {
namespace {

using c10d::ProcessGroupGloo;

absl::StatusOr<c10::intrusive_ptr<ProcessGroupGloo>> Connect(
    const CommunicatorOptions& options,
    const c10::intrusive_ptr<RendezvousStore>& store) {
  return CallC10d(
      "forming a Gloo group",
      [&]() -> absl::StatusOr<c10::intrusive_ptr<ProcessGroupGloo>> {
        auto gloo_options = ProcessGroupGloo::Options::create(
            absl::ToChronoMilliseconds(options.timeout));
        // These threads serve c10d's collectives, which we do not use.
        gloo_options->threads = 1;
        gloo_options->devices.push_back(
            options.network_interface.empty()
                ? ProcessGroupGloo::createDeviceForHostname(options.host)
                : ProcessGroupGloo::createDeviceForInterface(
                      options.network_interface));
        return c10::make_intrusive<ProcessGroupGloo>(
            c10::make_intrusive<c10d::PrefixStore>(options.prefix, store),
            options.rank.value(), options.size, gloo_options);
      });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> GlooCommunicator::Create(
    const CommunicatorOptions& options) {
  PIPESTAGE_RETURN_IF_ERROR(CheckCommunicatorOptions(options));
  auto store =
      c10::make_intrusive<RendezvousStore>(options.rendezvous, options.timeout);
  auto process_group = Connect(options, store);
  store->Disconnect();
  // What the rendezvous said is more to the point than what Gloo made of it.
  PIPESTAGE_RETURN_IF_ERROR(store->status());
  PIPESTAGE_RETURN_IF_ERROR(process_group.status());
  auto group =
      std::make_shared<GlooGroup>(*std::move(process_group), options.timeout);
  return std::unique_ptr<Communicator>(
      new GlooCommunicator(options, std::move(group)));
}

GlooCommunicator::GlooCommunicator(const CommunicatorOptions& options,
                                   std::shared_ptr<GlooGroup> group)
    : rank_(options.rank), size_(options.size), group_(std::move(group)) {}

GlooCommunicator::~GlooCommunicator() {
  group_->End(absl::CancelledError("the communicator was destroyed"));
}

absl::StatusOr<std::unique_ptr<Operation>> GlooCommunicator::Send(
    Rank to, absl::Span<const ConstPart> parts,
    std::shared_ptr<const void> keepalive) {
  PIPESTAGE_RETURN_IF_ERROR(CheckPeer(rank_, to, size_));
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), parts));
  return group_->Send(GlooGroup::Lane::kMessages, to, parts,
                      std::move(keepalive));
}

absl::StatusOr<std::unique_ptr<Operation>> GlooCommunicator::Receive(
    Rank from, absl::Span<const MutablePart> parts,
    std::shared_ptr<const void> keepalive) {
  PIPESTAGE_RETURN_IF_ERROR(CheckPeer(rank_, from, size_));
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), parts));
  return group_->Receive(GlooGroup::Lane::kMessages, from, parts,
                         std::move(keepalive));
}

absl::Status GlooCommunicator::AllReduceSum(MutablePart data, DType dtype) {
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {data}));
  return HostAllReduceSum(*this, data, dtype);
}

absl::Status GlooCommunicator::AllGather(ConstPart in, MutablePart out) {
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {in}));
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {out}));
  return HostAllGather(*this, in, out);
}

absl::Status GlooCommunicator::ReduceScatterSum(ConstPart in, MutablePart out,
                                                DType dtype) {
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {in}));
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {out}));
  return HostReduceScatterSum(*this, in, out, dtype);
}

void GlooCommunicator::Abort(absl::Status reason) {
  group_->End(std::move(reason));
}

absl::StatusOr<std::unique_ptr<Operation>> GlooCommunicator::LaneSend(
    Rank to, ConstPart part) {
  return group_->Send(GlooGroup::Lane::kCollectives, to, {part},
                      /*keepalive=*/nullptr);
}

absl::StatusOr<std::unique_ptr<Operation>> GlooCommunicator::LaneReceive(
    Rank from, MutablePart part) {
  return group_->Receive(GlooGroup::Lane::kCollectives, from, {part},
                         /*keepalive=*/nullptr);
}

void GlooCommunicator::LaneAbort(const absl::Status& reason) {
  group_->End(reason);
}

}  // namespace pipestage
