#include "worker/run_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace pipestage {

void RunQueue::BeginAttachment(std::shared_ptr<FeedWindow> window) {
  absl::MutexLock lock(&mu_);
  window_ = std::move(window);
}

void RunQueue::PushForm(v1::FormCommunicator form) {
  Inboxes ended;
  absl::MutexLock lock(&mu_);
  const Generation generation(form.generation());
  EndLocked(generation - 1,
            absl::CancelledError(
                absl::StrCat("generation ", generation.value(), " follows")),
            ended);
  current_ = generation;
  ended_ = false;
  work_.push_back({.form = std::move(form)});
  size_.store(static_cast<int>(work_.size()), std::memory_order_relaxed);
}

bool RunQueue::PushRun(v1::Run run) {
  std::shared_ptr<CallInbox> inbox;
  absl::MutexLock lock(&mu_);
  inbox = std::make_shared<CallInbox>(CallId(run.call_id()), window_);
  for (v1::FeedData& feed : *run.mutable_feeds()) {
    window_->OnReceived(static_cast<int64_t>(feed.data().size()));
    inbox->AddFeed(std::move(feed));
  }
  run.clear_feeds();
  if (ended_ || Generation(run.generation()) != current_) return false;
  inboxes_[inbox->call()] = inbox;
  work_.push_back({.run = std::move(run), .inbox = std::move(inbox)});
  size_.store(static_cast<int>(work_.size()), std::memory_order_relaxed);
  return true;
}

std::shared_ptr<CallInbox> RunQueue::FindInbox(CallId call) const {
  const auto it = inboxes_.find(call);
  return it == inboxes_.end() ? nullptr : it->second;
}

void RunQueue::AddFeed(v1::FeedData feed) {
  const int64_t bytes = static_cast<int64_t>(feed.data().size());
  std::shared_ptr<CallInbox> inbox;
  std::shared_ptr<FeedWindow> window;
  {
    absl::MutexLock lock(&mu_);
    inbox = FindInbox(CallId(feed.call_id()));
    window = window_;
    if (inbox == nullptr) ++dropped_feeds_;
  }
  window->OnReceived(bytes);
  if (inbox == nullptr) return window->OnTaken(bytes);
  inbox->AddFeed(std::move(feed));
}

void RunQueue::Cancel(CallId call, absl::string_view reason) {
  std::shared_ptr<CallInbox> inbox;
  {
    absl::MutexLock lock(&mu_);
    inbox = FindInbox(call);
  }
  if (inbox != nullptr) inbox->Cancel(reason);
}

bool RunQueue::EndGenerations(Generation last, const absl::Status& reason) {
  Inboxes ended;
  absl::MutexLock lock(&mu_);
  return EndLocked(last, reason, ended);
}

bool RunQueue::EndLocked(Generation last, const absl::Status& reason,
                         Inboxes& ended) {
  if (ended_ || current_ > last) return false;
  ended_ = true;
  for (auto& [call, inbox] : inboxes_) inbox->Abort(reason);
  ended.swap(inboxes_);
  // Forms stay: each of them is answered.
  std::erase_if(work_, [](const Work& work) { return !work.form.has_value(); });
  size_.store(static_cast<int>(work_.size()), std::memory_order_relaxed);
  return true;
}

RunQueue::Work RunQueue::PopFront() {
  Work work = std::move(work_.front());
  work_.pop_front();
  size_.store(static_cast<int>(work_.size()), std::memory_order_relaxed);
  return work;
}

std::optional<RunQueue::Work> RunQueue::Pop() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &RunQueue::HasNews));
  if (stopped_) return std::nullopt;
  return PopFront();
}

std::optional<RunQueue::Work> RunQueue::TryPopRun() {
  absl::MutexLock lock(&mu_);
  if (stopped_ || work_.empty() || work_.front().form.has_value()) {
    return std::nullopt;
  }
  return PopFront();
}

void RunQueue::Done(CallId call) {
  std::shared_ptr<CallInbox> done;
  absl::MutexLock lock(&mu_);
  const auto it = inboxes_.find(call);
  if (it == inboxes_.end()) return;
  done = std::move(it->second);
  inboxes_.erase(it);
}

void RunQueue::Stop() {
  absl::MutexLock lock(&mu_);
  stopped_ = true;
}

bool RunQueue::WaitUntilIdle(absl::Duration patience) {
  absl::MutexLock lock(&mu_);
  return mu_.AwaitWithTimeout(absl::Condition(this, &RunQueue::IsIdle),
                              patience);
}

Generation RunQueue::current() const {
  absl::MutexLock lock(&mu_);
  return current_;
}

int RunQueue::num_runs() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(inboxes_.size());
}

int64_t RunQueue::dropped_feeds() const {
  absl::MutexLock lock(&mu_);
  return dropped_feeds_;
}

}  // namespace pipestage
