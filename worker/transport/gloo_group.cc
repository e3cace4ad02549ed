#include "worker/transport/gloo_group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "ATen/ops/from_blob.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "worker/transport/c10d_errors.h"
#include "worker/transport/transport_arguments.h"

namespace pipestage {
namespace {

// The bytes as c10d takes them. Not owned.
at::Tensor TensorOf(void* data, size_t size) {
  static std::byte nothing;
  return at::from_blob(size == 0 ? &nothing : data,
                       {static_cast<int64_t>(size)}, at::kByte);
}

}  // namespace

// What belongs to one message. Works are guarded by the group's lock, except
// from BeginWait to Leave; all else belongs to whoever starts and then waits.
class GlooGroup::GlooOperation : public Operation {
 public:
  using Works = absl::InlinedVector<c10::intrusive_ptr<c10d::Work>, 2>;

  GlooOperation(std::shared_ptr<GlooGroup> group, bool is_send, Rank peer,
                std::shared_ptr<const void> keepalive)
      : group_(std::move(group)),
        is_send_(is_send),
        peer_(peer),
        keepalive_(std::move(keepalive)) {}
  ~GlooOperation() override { group_->Leave(*this); }

  void AddPart(void* data, size_t size) { parts_.push_back({data, size}); }

  // Both ends know all sizes, hence decide alike: a small message of several
  // parts is put together, of a large one each part that is not empty is a
  // message.
  void Launch(c10d::ProcessGroupGloo& process_group, int tag) {
    const size_t total = TotalBytes(parts_);
    if (parts_.size() == 1 || total == 0) {
      LaunchOne(process_group, tag, parts_.empty() ? nullptr : parts_[0].data,
                total);
    } else if (total <= StagingPool::kMaxSize) {
      staging_ = group_->pool_.Take(total);
      if (is_send_) CopyParts(/*into_parts=*/false);
      LaunchOne(process_group, tag, staging_.data(), total);
    } else {
      for (const MutablePart& part : parts_) {
        if (part.size == 0) continue;
        LaunchOne(process_group, tag, part.data, part.size);
      }
    }
  }

  absl::Status Wait() override {
    absl::Status status = group_->BeginWait(*this);
    if (status.ok()) status = WaitForWorks();
    group_->Leave(*this);
    DropWorks();
    if (!status.ok()) {
      status = group_->Fail(std::move(status));
    } else if (!is_send_ && staging_.data() != nullptr) {
      CopyParts(/*into_parts=*/true);
    }
    staging_ = StagingPool::Buffer();
    keepalive_.reset();
    return status;
  }

  // First of all: they refer to the bytes.
  void DropWorks() { works_.clear(); }

  Rank peer() const { return peer_; }
  absl::string_view what() const {
    return is_send_ ? "send to" : "receive from";
  }

 private:
  friend class GlooGroup;

  void LaunchOne(c10d::ProcessGroupGloo& process_group, int tag, void* data,
                 size_t size) {
    std::vector<at::Tensor> tensors = {TensorOf(data, size)};
    works_.push_back(is_send_
                         ? process_group.send(tensors, peer_.value(), tag)
                         : process_group.recv(tensors, peer_.value(), tag));
  }

  void CopyParts(bool into_parts) {
    std::byte* at = staging_.data();
    for (const MutablePart& part : parts_) {
      if (part.size == 0) continue;
      if (into_parts) {
        std::memcpy(part.data, at, part.size);
      } else {
        std::memcpy(at, part.data, part.size);
      }
      at += part.size;
    }
  }

  absl::Status WaitForWorks() {
    const absl::Time deadline = absl::Now() + group_->timeout_;
    absl::Duration left = group_->timeout_;
    for (auto& work : works_) {
      const auto milliseconds = std::max(absl::ToChronoMilliseconds(left),
                                         std::chrono::milliseconds(1));
      const absl::Status status = CallC10d(what(), [&] {
        return work->wait(milliseconds)
                   ? absl::OkStatus()
                   : absl::CancelledError("the operation was aborted");
      });
      if (!status.ok()) {
        return absl::Now() >= deadline
                   ? PeerTimeoutError(peer_, what(), group_->timeout_)
                   : PeerLostError(peer_, status.message());
      }
      if (works_.size() > 1) left = deadline - absl::Now();
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<GlooGroup> group_;
  const bool is_send_;
  const Rank peer_;
  std::shared_ptr<const void> keepalive_;
  StagingPool::Buffer staging_;
  absl::InlinedVector<MutablePart, 4> parts_;  // of a send: only read
  Works works_;                                // destroyed before their bytes

  // Guarded by the group's lock.
  bool is_waiting_ = false;
  bool is_listed_ = false;
  GlooOperation* next_ = nullptr;
  GlooOperation* previous_ = nullptr;
};

GlooGroup::GlooGroup(c10::intrusive_ptr<c10d::ProcessGroupGloo> process_group,
                     absl::Duration timeout)
    : timeout_(timeout), process_group_(std::move(process_group)) {}

absl::StatusOr<std::unique_ptr<Operation>> GlooGroup::Send(
    Lane lane, Rank to, absl::Span<const ConstPart> parts,
    std::shared_ptr<const void> keepalive) {
  auto operation = std::make_unique<GlooOperation>(
      shared_from_this(), /*is_send=*/true, to, std::move(keepalive));
  for (const ConstPart& part : parts) {
    operation->AddPart(const_cast<void*>(part.data), part.size);
  }
  return Start(std::move(operation), lane);
}

absl::StatusOr<std::unique_ptr<Operation>> GlooGroup::Receive(
    Lane lane, Rank from, absl::Span<const MutablePart> parts,
    std::shared_ptr<const void> keepalive) {
  auto operation = std::make_unique<GlooOperation>(
      shared_from_this(), /*is_send=*/false, from, std::move(keepalive));
  for (const MutablePart& part : parts) {
    operation->AddPart(part.data, part.size);
  }
  return Start(std::move(operation), lane);
}

absl::StatusOr<std::unique_ptr<Operation>> GlooGroup::Start(
    std::unique_ptr<GlooOperation> operation, Lane lane) {
  PIPESTAGE_ASSIGN_OR_RETURN(auto process_group, Open());
  absl::Status status = CallC10d(operation->what(), [&] {
    operation->Launch(*process_group, static_cast<int>(lane));
    return absl::OkStatus();
  });
  if (!status.ok()) {
    return Fail(PeerLostError(operation->peer(), status.message()));
  }
  status = Enter(*operation);
  if (status.ok()) return operation;
  operation->DropWorks();
  process_group.reset();
  return Fail(std::move(status));
}

void GlooGroup::End(absl::Status reason) {
  c10::intrusive_ptr<c10d::ProcessGroupGloo> process_group;
  std::vector<GlooOperation::Works> works;
  {
    absl::MutexLock lock(&mu_);
    if (!ended_.ok()) return AwaitClosed();
    ended_ = reason.ok() ? absl::CancelledError("the communicator was ended")
                         : std::move(reason);
    process_group = std::move(process_group_);
    for (GlooOperation* o = first_; o != nullptr; o = o->next_) {
      if (o->is_waiting_) {
        for (auto& work : o->works_) work->abort();
      } else {
        works.push_back(std::move(o->works_));
      }
    }
  }
  // Connections are closed here, or by the last waiter when it drops its works.
  works.clear();
  process_group.reset();
  absl::MutexLock lock(&mu_);
  is_closed_ = true;
}

void GlooGroup::AwaitClosed() { mu_.Await(absl::Condition(&is_closed_)); }

absl::StatusOr<c10::intrusive_ptr<c10d::ProcessGroupGloo>> GlooGroup::Open() {
  absl::MutexLock lock(&mu_);
  if (!ended_.ok()) return ended_;
  return process_group_;
}

absl::Status GlooGroup::Enter(GlooOperation& operation) {
  absl::MutexLock lock(&mu_);
  if (!ended_.ok()) return ended_;
  operation.is_listed_ = true;
  operation.next_ = first_;
  if (first_ != nullptr) first_->previous_ = &operation;
  first_ = &operation;
  return absl::OkStatus();
}

absl::Status GlooGroup::BeginWait(GlooOperation& operation) {
  absl::MutexLock lock(&mu_);
  operation.is_waiting_ = ended_.ok();
  return ended_;
}

void GlooGroup::Leave(GlooOperation& operation) {
  absl::MutexLock lock(&mu_);
  if (!operation.is_listed_) return;
  // Another thread may be taking the works of this one away: its bytes are not
  // free before that.
  if (!ended_.ok()) AwaitClosed();
  operation.is_listed_ = false;
  if (operation.next_ != nullptr) {
    operation.next_->previous_ = operation.previous_;
  }
  (operation.previous_ != nullptr ? operation.previous_->next_ : first_) =
      operation.next_;
}

absl::Status GlooGroup::Fail(absl::Status status) {
  End(std::move(status));
  absl::MutexLock lock(&mu_);
  return ended_;
}

}  // namespace pipestage
