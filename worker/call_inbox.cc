#include "worker/call_inbox.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

absl::Status WrongSize(absl::string_view what, size_t got, int64_t expected) {
  return absl::InternalError(absl::StrCat(what, " came as ", got,
                                          " bytes; the model's contract says ",
                                          expected, " bytes"));
}

Buffer TakeBytes(v1::FeedData& feed) {
  return Buffer::FromString(std::move(*feed.mutable_data()));
}

}  // namespace

CallInbox::~CallInbox() {
  Discard();  // an aborted call did not
}

void CallInbox::AddFeed(v1::FeedData feed) {
  const int64_t bytes = static_cast<int64_t>(feed.data().size());
  {
    absl::MutexLock lock(&mu_);
    if (!discarding_) {
      untaken_bytes_ += bytes;
      arrived_.push_back(std::move(feed));
      return;
    }
  }
  window_->OnTaken(bytes);
}

void CallInbox::Cancel(absl::string_view reason) {
  absl::MutexLock lock(&mu_);
  if (!reason_.ok()) return;
  reason_ = absl::CancelledError(
      absl::StrCat("call ", call_.value(), " was cancelled: ", reason));
  state_.store(State::kCancelled, std::memory_order_release);
}

void CallInbox::Abort(absl::Status reason) {
  absl::MutexLock lock(&mu_);
  if (state() == State::kAborted) return;
  reason_ = std::move(reason);
  state_.store(State::kAborted, std::memory_order_release);
}

absl::Status CallInbox::reason() const {
  absl::MutexLock lock(&mu_);
  return reason_;
}

void CallInbox::Expect(std::vector<Argument> arguments,
                       Microbatches microbatches) {
  arguments_ = std::move(arguments);
  num_microbatches_ = microbatches.count();
  num_larger_ = microbatches.total_rows() -
                (microbatches.max_rows() - 1) * num_microbatches_;
  slots_.resize(arguments_.size());
  for (size_t a = 0; a < arguments_.size(); ++a) {
    if (arguments_[a].uses == 0) continue;
    const Slot empty = {.uses_left = arguments_[a].uses};
    slots_[a].assign(arguments_[a].replicated ? 1 : num_microbatches_, empty);
  }
}

int64_t CallInbox::BytesOf(const Argument& argument, int64_t microbatch) const {
  return microbatch < num_larger_ ? argument.larger_bytes
                                  : argument.smaller_bytes;
}

absl::StatusOr<Buffer> CallInbox::Take(int argument, MicrobatchIndex m) {
  const bool replicated = arguments_[argument].replicated;
  Slot& slot = slots_[argument][replicated ? 0 : m.value()];
  while (!slot.filled) {
    PIPESTAGE_ASSIGN_OR_RETURN(std::vector<v1::FeedData> feeds, WaitForFeeds());
    for (v1::FeedData& feed : feeds) {
      PIPESTAGE_RETURN_IF_ERROR(Sort(std::move(feed)));
    }
  }
  if (!std::exchange(slot.used, true)) {
    TellTaken(static_cast<int64_t>(slot.bytes.size()));
  }
  if (replicated || --slot.uses_left > 0) return slot.bytes;
  return std::exchange(slot.bytes, Buffer());
}

void CallInbox::TellTaken(int64_t bytes) {
  {
    absl::MutexLock lock(&mu_);
    untaken_bytes_ -= bytes;
  }
  window_->OnTaken(bytes);
}

absl::StatusOr<std::vector<v1::FeedData>> CallInbox::WaitForFeeds() {
  bool starving;
  {
    absl::MutexLock lock(&mu_);
    starving = !HasNews();
  }
  if (starving) window_->OnStarving();
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &CallInbox::HasNews));
  if (!reason_.ok()) return reason_;
  return std::exchange(arrived_, {});
}

absl::Status CallInbox::Sort(v1::FeedData feed) {
  const int a = feed.argument();
  if (a < 0 || a >= arguments_.size()) {
    return absl::InternalError(
        absl::StrCat("feed for argument ", a, "; the model has ",
                     arguments_.size(), " inputs and targets"));
  }
  const Argument& argument = arguments_[a];
  if (argument.uses == 0) {
    TellTaken(static_cast<int64_t>(feed.data().size()));
    return absl::OkStatus();
  }
  if (argument.replicated) return SortReplicated(a, std::move(feed));

  const int64_t first = feed.first_microbatch();
  const int64_t end = first + feed.num_microbatches();
  const std::string what = absl::StrCat("microbatches [", first, ",", end,
                                        ") of argument '", argument.name, "'");
  if (first < 0 || end <= first || end > num_microbatches_) {
    return absl::InternalError(
        absl::StrCat(what, " were fed; the call has ", num_microbatches_));
  }
  int64_t expected = 0;
  for (int64_t m = first; m < end; ++m) expected += BytesOf(argument, m);
  if (feed.data().size() != expected) {
    return WrongSize(what, feed.data().size(), expected);
  }
  const Buffer bytes = TakeBytes(feed);
  size_t offset = 0;
  for (int64_t m = first; m < end; ++m) {
    Slot& slot = slots_[a][m];
    if (slot.filled) {
      return absl::InternalError(absl::StrCat("microbatch ", m,
                                              " of argument '", argument.name,
                                              "' was fed twice"));
    }
    slot.filled = true;
    slot.bytes = bytes.Slice(offset, BytesOf(argument, m));
    offset += BytesOf(argument, m);
  }
  return absl::OkStatus();
}

absl::Status CallInbox::SortReplicated(int argument, v1::FeedData feed) {
  const Argument& of = arguments_[argument];
  const std::string what = absl::StrCat("argument '", of.name, "'");
  if (feed.num_microbatches() != 0) {
    return absl::InternalError(
        absl::StrCat(what, " was fed in ", feed.num_microbatches(),
                     " microbatches; the model's contract replicates it"));
  }
  if (feed.data().size() != of.larger_bytes) {
    return WrongSize(what, feed.data().size(), of.larger_bytes);
  }
  Slot& slot = slots_[argument][0];
  if (slot.filled) {
    return absl::InternalError(absl::StrCat(what, " was fed twice"));
  }
  slot.filled = true;
  slot.bytes = TakeBytes(feed);
  return absl::OkStatus();
}

void CallInbox::Discard() {
  std::vector<v1::FeedData> dropped;
  int64_t untaken_bytes;
  {
    absl::MutexLock lock(&mu_);
    discarding_ = true;
    dropped = std::exchange(arrived_, {});
    untaken_bytes = std::exchange(untaken_bytes_, 0);
  }
  dropped.clear();
  slots_.clear();
  window_->OnTaken(untaken_bytes);
}

}  // namespace pipestage
