#include "worker/transport/nccl_group.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "ATen/cuda/CUDAEvent.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/zeros.h"
#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "c10/cuda/CUDAGuard.h"
#include "torch/csrc/distributed/c10d/PrefixStore.hpp"
#include "worker/transport/c10d_errors.h"
#include "worker/transport/transport_arguments.h"

namespace pipestage {
namespace {

using c10d::ProcessGroupNCCL;

NcclGroup::Link ConnectLink(const CommunicatorOptions& options,
                            at::Device device,
                            const c10::intrusive_ptr<RendezvousStore>& store,
                            const std::string& name, int rank, int size) {
  auto nccl_options =
      ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
  nccl_options->timeout = absl::ToChronoMilliseconds(options.timeout);
  nccl_options->group_name = absl::StrCat(options.prefix, "/", name);
  // A receive posted ahead occupies this many multiprocessors while it waits.
  if (size == 2) nccl_options->config.maxCTAs = 4;
  auto process_group = c10::make_intrusive<ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>(nccl_options->group_name, store),
      rank, size, nccl_options);
  process_group->eagerConnectSingleDevice(device);
  return {
      std::move(process_group),
      c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())};
}

at::TensorOptions BytesOn(at::Device device) {
  return at::TensorOptions(at::kByte).device(device);
}

}  // namespace

// Parts in host memory travel through pinned and device memory of their own,
// every part as an NCCL message: the two ends need not have it in the same
// memory.
class NcclGroup::NcclOperation : public Operation {
 public:
  NcclOperation(std::shared_ptr<NcclGroup> group, Rank peer,
                absl::string_view what, std::shared_ptr<const void> keepalive)
      : group_(std::move(group)),
        peer_(peer),
        what_(what),
        keepalive_(std::move(keepalive)) {}

  // In device memory: `part` itself, or a copy that is made on the link's
  // stream.
  at::Tensor SourceTensor(const ConstPart& part, at::ScalarType type) {
    const int64_t count = part.size / at::elementSize(type);
    if (part.device == DeviceKind::kCuda) {
      return at::from_blob(const_cast<void*>(part.data), {count},
                           BytesOn(group_->device_).dtype(type));
    }
    at::Tensor pinned = at::empty({static_cast<int64_t>(part.size)},
                                  BytesOn(at::kCPU).pinned_memory(true));
    std::memcpy(pinned.data_ptr(), part.data, part.size);
    at::Tensor staged =
        at::empty({count}, BytesOn(group_->device_).dtype(type));
    staged.view(at::kByte).copy_(pinned, /*non_blocking=*/true);
    return staged;
  }

  // In device memory: `part` itself, or memory that Wait copies into it.
  at::Tensor TargetTensor(const MutablePart& part, at::ScalarType type) {
    const int64_t count = part.size / at::elementSize(type);
    const at::TensorOptions options = BytesOn(group_->device_).dtype(type);
    if (part.device == DeviceKind::kCuda) {
      return at::from_blob(part.data, {count}, options);
    }
    copies_.push_back({part, at::empty({count}, options), at::Tensor()});
    return copies_.back().staged;
  }

  // Runs `start` on the link's stream, after what is queued on the caller's:
  // the bytes may come from kernels that have not run yet.
  void Launch(Link& link,
              absl::FunctionRef<c10::intrusive_ptr<c10d::Work>()> start) {
    const c10::cuda::CUDAGuard device(group_->device_);
    at::cuda::CUDAEvent queued;
    queued.record();
    queued.block(link.stream);
    const c10::cuda::CUDAStreamGuard stream(link.stream);
    work_ = start();
    work_->synchronize();  // the link's stream waits, not this thread
    for (HostCopy& copy : copies_) {
      copy.pinned = at::empty({static_cast<int64_t>(copy.to.size)},
                              BytesOn(at::kCPU).pinned_memory(true));
      copy.pinned.copy_(copy.staged.view(at::kByte), /*non_blocking=*/true);
    }
    done_.record();
  }

  absl::Status Wait() override {
    absl::Status status = Poll();
    if (!status.ok()) status = group_->Fail(std::move(status));
    if (status.ok()) {
      for (const HostCopy& copy : copies_) {
        std::memcpy(copy.to.data, copy.pinned.data_ptr(), copy.to.size);
      }
    }
    copies_.clear();
    work_.reset();
    keepalive_.reset();
    return status;
  }

  Rank peer() const { return peer_; }
  absl::string_view what() const { return what_; }

 private:
  struct HostCopy {
    MutablePart to;
    at::Tensor staged;
    at::Tensor pinned;
  };

  // Work::wait polls once a millisecond, and sees no Abort; hence our own.
  absl::Status Poll() {
    constexpr int kYields = 1000;
    const absl::Time deadline = absl::Now() + group_->timeout_;
    for (int i = 0;; ++i) {
      PIPESTAGE_RETURN_IF_ERROR(group_->Ended());
      bool done = false;
      absl::Status status = CallC10d(what_, [&] {
        done = done_.query();
        if (!done && i >= kYields && work_->isCompleted() &&
            work_->exception() != nullptr) {
          std::rethrow_exception(work_->exception());
        }
        return absl::OkStatus();
      });
      if (!status.ok()) return PeerLostError(peer_, status.message());
      // An abort makes streams run on without the message.
      if (done) return group_->Ended();
      if (i < kYields) {
        std::this_thread::yield();
        continue;
      }
      if (absl::Now() >= deadline) {
        return PeerTimeoutError(peer_, what_, group_->timeout_);
      }
      absl::SleepFor(absl::Microseconds(50));
    }
  }

  const std::shared_ptr<NcclGroup> group_;
  const Rank peer_;
  const absl::string_view what_;
  std::shared_ptr<const void> keepalive_;
  std::vector<HostCopy> copies_;
  c10::intrusive_ptr<c10d::Work> work_;
  at::cuda::CUDAEvent done_;
};

std::shared_ptr<NcclGroup> NcclGroup::Connect(
    const CommunicatorOptions& options, int device_index,
    const c10::intrusive_ptr<RendezvousStore>& store) {
  std::shared_ptr<NcclGroup> group(
      new NcclGroup(options.rank, device_index, options.timeout));
  const c10::cuda::CUDAGuard device(group->device_);
  try {
    group->all_.push_back(ConnectLink(options, group->device_, store, "all",
                                      options.rank.value(), options.size));
    std::vector<at::Tensor> byte = {at::zeros({1}, BytesOn(group->device_))};
    group->all_[0].process_group->allreduce(byte)->wait();
    group->ConnectPairs(options, store);
    c10::cuda::device_synchronize();
  } catch (...) {
    group->End(absl::UnavailableError("forming the group failed"));
    throw;
  }
  return group;
}

void NcclGroup::ConnectPairs(const CommunicatorOptions& options,
                             const c10::intrusive_ptr<RendezvousStore>& store) {
  to_.assign(options.size, all_[0]);
  from_ = to_;
  std::vector<at::Tensor> byte = {at::zeros({1}, BytesOn(device_))};
  // Every rank takes the pairs in one global order, so none waits for another
  // that waits for it.
  for (int from = 0; from < options.size; ++from) {
    for (int to = 0; to < options.size; ++to) {
      const int me = options.rank.value();
      if (from == to || (me != from && me != to)) continue;
      Link link =
          ConnectLink(options, device_, store, absl::StrCat(from, "-", to),
                      /*rank=*/me == from ? 0 : 1, /*size=*/2);
      auto& pair = *link.process_group;
      Link& place = me == from ? to_[to] : from_[from];
      place = std::move(link);
      (me == from ? pair.send(byte, 1, 0) : pair.recv(byte, 0, 0))->wait();
    }
  }
}

NcclGroup::~NcclGroup() {
  std::thread ender;
  {
    absl::MutexLock lock(&mu_);
    ender = std::move(ender_);
  }
  if (ender.joinable()) ender.join();
}

absl::StatusOr<std::unique_ptr<Operation>> NcclGroup::Send(
    Rank to, absl::Span<const ConstPart> parts,
    std::shared_ptr<const void> keepalive) {
  PIPESTAGE_RETURN_IF_ERROR(Ended());
  auto operation = std::make_unique<NcclOperation>(
      shared_from_this(), to, "send to", std::move(keepalive));
  Link& link = to_[to.value()];
  absl::Status status = CallC10d("send", [&] {
    operation->Launch(link, [&] {
      link.process_group->startCoalescing();
      for (const ConstPart& part : parts) {
        if (part.size == 0) continue;
        std::vector<at::Tensor> tensors = {
            operation->SourceTensor(part, at::kByte)};
        link.process_group->send(tensors, /*dstRank=*/1, /*tag=*/0);
      }
      if (TotalBytes(parts) == 0) {  // an empty message is a message too
        std::vector<at::Tensor> byte = {at::zeros({1}, BytesOn(device_))};
        link.process_group->send(byte, /*dstRank=*/1, /*tag=*/0);
      }
      return link.process_group->endCoalescing();
    });
    return absl::OkStatus();
  });
  if (!status.ok()) return Fail(PeerLostError(to, status.message()));
  return operation;
}

absl::StatusOr<std::unique_ptr<Operation>> NcclGroup::Receive(
    Rank from, absl::Span<const MutablePart> parts,
    std::shared_ptr<const void> keepalive) {
  PIPESTAGE_RETURN_IF_ERROR(Ended());
  auto operation = std::make_unique<NcclOperation>(
      shared_from_this(), from, "receive from", std::move(keepalive));
  Link& link = from_[from.value()];
  absl::Status status = CallC10d("receive", [&] {
    operation->Launch(link, [&] {
      link.process_group->startCoalescing();
      for (const MutablePart& part : parts) {
        if (part.size == 0) continue;
        std::vector<at::Tensor> tensors = {
            operation->TargetTensor(part, at::kByte)};
        link.process_group->recv(tensors, /*srcRank=*/0, /*tag=*/0);
      }
      if (TotalBytes(parts) == 0) {
        std::vector<at::Tensor> byte = {at::zeros({1}, BytesOn(device_))};
        link.process_group->recv(byte, /*srcRank=*/0, /*tag=*/0);
      }
      return link.process_group->endCoalescing();
    });
    return absl::OkStatus();
  });
  if (!status.ok()) return Fail(PeerLostError(from, status.message()));
  return operation;
}

absl::Status NcclGroup::Collect(ConstPart in, MutablePart out,
                                at::ScalarType type, Collective collective) {
  PIPESTAGE_RETURN_IF_ERROR(Ended());
  NcclOperation operation(shared_from_this(), rank_, "collective of",
                          /*keepalive=*/nullptr);
  absl::Status status = CallC10d("collective", [&] {
    operation.Launch(all_[0], [&] {
      at::Tensor source = operation.SourceTensor(in, type);
      at::Tensor target = operation.TargetTensor(out, type);
      return collective(*all_[0].process_group, source, target);
    });
    return absl::OkStatus();
  });
  if (!status.ok()) return Fail(std::move(status));
  return operation.Wait();
}

std::vector<c10::intrusive_ptr<ProcessGroupNCCL>> NcclGroup::ProcessGroups()
    const {
  std::vector<c10::intrusive_ptr<ProcessGroupNCCL>> groups;
  for (const auto* links : {&all_, &to_, &from_}) {
    for (const Link& link : *links) {
      if (!absl::c_linear_search(groups, link.process_group)) {
        groups.push_back(link.process_group);
      }
    }
  }
  return groups;
}

// All at once: the kernels of one may wait on the device for those of another,
// and an abort returns when its own have left.
void NcclGroup::AbortAll(absl::Status reason) {
  std::vector<std::thread> aborts;
  for (auto& process_group : ProcessGroups()) {
    aborts.emplace_back([this, process_group] {
      const c10::cuda::CUDAGuard device(device_);
      // It may fail to abort in time; the others are aborted all the same.
      (void)CallC10d("abort", [&] {
        process_group->abort();
        return absl::OkStatus();
      });
    });
  }
  for (std::thread& abort : aborts) abort.join();
  absl::MutexLock lock(&mu_);
  ended_ = std::move(reason);
}

void NcclGroup::BeginEnd(absl::Status reason) {
  if (reason.ok()) reason = absl::CancelledError("the communicator was ended");
  absl::MutexLock lock(&mu_);
  if (is_ending_) return;
  is_ending_ = true;
  ender_ = std::thread(
      [this, reason = std::move(reason)] { AbortAll(std::move(reason)); });
}

void NcclGroup::End(absl::Status reason) {
  BeginEnd(std::move(reason));
  (void)Ended();
}

absl::Status NcclGroup::Ended() const {
  absl::MutexLock lock(&mu_);
  if (!is_ending_) return absl::OkStatus();
  const auto ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !ended_.ok();
  };
  mu_.Await(absl::Condition(&ended));
  return ended_;
}

absl::Status NcclGroup::Fail(absl::Status status) {
  End(std::move(status));
  return Ended();
}

}  // namespace pipestage
