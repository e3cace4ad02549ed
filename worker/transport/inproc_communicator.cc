#include "worker/transport/inproc_communicator.h"

#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "worker/transport/transport_arguments.h"

namespace pipestage {
namespace {

// Hubs being joined, by the name under which rank 0 announced them. A
// rendezvous carries text, never an address that another process might make us
// follow.
class HubDirectory {
 public:
  static HubDirectory& OfThisProcess() {
    static auto* const directory = new HubDirectory;
    return *directory;
  }

  std::string Announce(const std::shared_ptr<InprocHub>& hub) {
    absl::MutexLock lock(&mu_);
    std::string name = absl::StrCat(getpid(), "/", ++last_id_);
    hubs_[name] = hub;
    return name;
  }

  std::shared_ptr<InprocHub> Find(const std::string& name) {
    absl::MutexLock lock(&mu_);
    const auto it = hubs_.find(name);
    return it == hubs_.end() ? nullptr : it->second.lock();
  }

  void Withdraw(const std::string& name) {
    absl::MutexLock lock(&mu_);
    hubs_.erase(name);
  }

 private:
  absl::Mutex mu_;
  int64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<std::string, std::weak_ptr<InprocHub>> hubs_
      ABSL_GUARDED_BY(mu_);
};

std::string HubKey(const CommunicatorOptions& options) {
  return absl::StrCat(options.prefix, "/inproc");
}

absl::StatusOr<std::shared_ptr<InprocHub>> OpenHub(
    const CommunicatorOptions& options) {
  auto hub = std::make_shared<InprocHub>(options.size);
  HubDirectory& directory = HubDirectory::OfThisProcess();
  const std::string name = directory.Announce(hub);
  absl::Status status = options.rendezvous->Set(HubKey(options), name);
  if (status.ok()) status = hub->Join(options.rank, options.timeout);
  directory.Withdraw(name);
  PIPESTAGE_RETURN_IF_ERROR(status);
  return hub;
}

absl::StatusOr<std::shared_ptr<InprocHub>> EnterHub(
    const CommunicatorOptions& options) {
  PIPESTAGE_ASSIGN_OR_RETURN(
      const std::string name,
      options.rendezvous->Get(HubKey(options), options.timeout));
  auto hub = HubDirectory::OfThisProcess().Find(name);
  if (hub == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "in-process group \"", name, "\" of rank 0 is not in this process, ",
        getpid(), ", or was given up"));
  }
  PIPESTAGE_RETURN_IF_ERROR(hub->Join(options.rank, options.timeout));
  return hub;
}

class InprocOperation : public Operation {
 public:
  InprocOperation(std::shared_ptr<InprocHub> hub,
                  std::shared_ptr<InprocHub::Transfer> transfer,
                  absl::Duration timeout)
      : hub_(std::move(hub)),
        transfer_(std::move(transfer)),
        timeout_(timeout) {}

  absl::Status Wait() override { return hub_->Wait(*transfer_, timeout_); }

 private:
  const std::shared_ptr<InprocHub> hub_;
  const std::shared_ptr<InprocHub::Transfer> transfer_;
  const absl::Duration timeout_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> InprocCommunicator::Create(
    const CommunicatorOptions& options) {
  PIPESTAGE_RETURN_IF_ERROR(CheckCommunicatorOptions(options));
  PIPESTAGE_ASSIGN_OR_RETURN(
      auto hub, options.rank == Rank(0) ? OpenHub(options) : EnterHub(options));
  return std::unique_ptr<Communicator>(
      new InprocCommunicator(options, std::move(hub)));
}

InprocCommunicator::InprocCommunicator(const CommunicatorOptions& options,
                                       std::shared_ptr<InprocHub> hub)
    : rank_(options.rank),
      size_(options.size),
      timeout_(options.timeout),
      hub_(std::move(hub)) {}

InprocCommunicator::~InprocCommunicator() {
  hub_->End(rank_, absl::CancelledError("the communicator was destroyed"));
}

absl::StatusOr<std::unique_ptr<Operation>> InprocCommunicator::Send(
    Rank to, absl::Span<const ConstPart> parts,
    std::shared_ptr<const void> keepalive) {
  PIPESTAGE_RETURN_IF_ERROR(CheckPeer(rank_, to, size_));
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), parts));
  return Start(hub_->PostSend(InprocHub::Lane::kMessages, rank_, to, parts,
                              std::move(keepalive)));
}

absl::StatusOr<std::unique_ptr<Operation>> InprocCommunicator::Receive(
    Rank from, absl::Span<const MutablePart> parts,
    std::shared_ptr<const void> keepalive) {
  PIPESTAGE_RETURN_IF_ERROR(CheckPeer(rank_, from, size_));
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), parts));
  return Start(hub_->PostReceive(InprocHub::Lane::kMessages, rank_, from, parts,
                                 std::move(keepalive)));
}

absl::Status InprocCommunicator::AllReduceSum(MutablePart data, DType dtype) {
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {data}));
  return HostAllReduceSum(*this, data, dtype);
}

absl::Status InprocCommunicator::AllGather(ConstPart in, MutablePart out) {
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {in}));
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {out}));
  return HostAllGather(*this, in, out);
}

absl::Status InprocCommunicator::ReduceScatterSum(ConstPart in, MutablePart out,
                                                  DType dtype) {
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {in}));
  PIPESTAGE_RETURN_IF_ERROR(CheckHostParts(backend(), {out}));
  return HostReduceScatterSum(*this, in, out, dtype);
}

void InprocCommunicator::Abort(absl::Status reason) {
  hub_->End(rank_, reason);
}

absl::StatusOr<std::unique_ptr<Operation>> InprocCommunicator::LaneSend(
    Rank to, ConstPart part) {
  return Start(hub_->PostSend(InprocHub::Lane::kCollectives, rank_, to, {part},
                              /*keepalive=*/nullptr));
}

absl::StatusOr<std::unique_ptr<Operation>> InprocCommunicator::LaneReceive(
    Rank from, MutablePart part) {
  return Start(hub_->PostReceive(InprocHub::Lane::kCollectives, rank_, from,
                                 {part}, /*keepalive=*/nullptr));
}

void InprocCommunicator::LaneAbort(const absl::Status& reason) {
  hub_->End(rank_, reason);
}

std::unique_ptr<Operation> InprocCommunicator::Start(
    std::shared_ptr<InprocHub::Transfer> posted) {
  return std::make_unique<InprocOperation>(hub_, std::move(posted), timeout_);
}

}  // namespace pipestage
