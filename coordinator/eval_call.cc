#include "coordinator/eval_call.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "coordinator/worker_error.h"

namespace pipestage {
EvalCall::EvalCall(Options options) : options_(std::move(options)) {
  collector_.emplace(options_.setup, options_.max_reply_bytes, options_.reply);
}

void EvalCall::Begin(CallId id, const PipelineView& view) {
  absl::MutexLock lock(&mu_);
  id_ = id;
  generation_ = view.generation;
  view_version_ = view.version;
  workers_.assign(view.members.begin(),
                  view.members.begin() + options_.plan->num_ranks());
  done_.assign(workers_.size(), false);
  dispatched_at_ = options_.clock->Now();
}

bool EvalCall::IsOwedBy(const Attachment& worker, absl::Time time) {
  absl::MutexLock lock(&mu_);
  const int rank = RankOf(worker);
  return rank >= 0 && !done_[rank] && !released_ && dispatched_at_ < time;
}

int EvalCall::RankOf(const Attachment& from) const {
  for (size_t r = 0; r < workers_.size(); ++r) {
    if (workers_[r]->id == from.id) return static_cast<int>(r);
  }
  return -1;
}

EvalCall::Outcome EvalCall::OnMessage(const Attachment& from,
                                      v1::WorkerMessage& message) {
  After after;
  {
    absl::MutexLock lock(&mu_);
    const int rank = RankOf(from);
    // After its CallDone a worker has nothing to say about a call.
    if (rank < 0 || done_[rank] || released_) {
      after.outcome.accepted = false;
      return after.outcome;
    }
    switch (message.kind_case()) {
      case v1::WorkerMessage::kCallFailed:
        OnFailed(from, message.call_failed(), after);
        break;
      case v1::WorkerMessage::kLosses:
        OnLosses(from, message.losses(), after);
        break;
      case v1::WorkerMessage::kOutput:
        OnOutput(from, *message.mutable_output(), after);
        break;
      case v1::WorkerMessage::kCallDone:
        OnDone(from, rank, *message.mutable_call_done(), after);
        break;
      default:
        after.outcome.accepted = false;
    }
  }
  return Act(std::move(after));
}

void EvalCall::OnFailed(const Attachment& from, const v1::CallFailed& failed,
                        After& after) {
  absl::Status error = FromRpcStatus(failed.error());
  if (error.ok()) error = absl::InternalError("it failed without saying why");
  Fail(AttributeToWorker(from, error), after);
}

void EvalCall::OnLosses(const Attachment& from, const v1::LossReport& report,
                        After& after) {
  if (answered()) return;
  auto added = collector_->AddLosses(report);
  if (!added.ok()) {
    Fail(AttributeToWorker(from, added.status()), after);
    return;
  }
  after.outcome.accepted &= !added->empty();
  after.losses = *std::move(added);
}

void EvalCall::OnOutput(const Attachment& from, v1::OutputData& data,
                        After& after) {
  if (answered()) return;
  const auto added = collector_->AddOutput(data);
  if (!added.ok()) {
    Fail(AttributeToWorker(from, added.status()), after);
    return;
  }
  after.outcome.accepted &= *added;
}

void EvalCall::OnDone(const Attachment& from, int rank, v1::CallDone& done,
                      After& after) {
  if (done.has_losses()) OnLosses(from, done.losses(), after);
  for (auto& output : *done.mutable_outputs()) OnOutput(from, output, after);
  after.outcome.accepted = true;  // the message itself is news
  done_[rank] = true;
  ++num_done_;
  all_complete_ &= done.complete();
  busy_s_ += done.busy_s();
  longest_wall_s_ = std::max(longest_wall_s_, done.wall_s());
  if (!answered() && options_.setup.timeline) AddTimeline(from, done);
  if (num_done_ < static_cast<int>(workers_.size())) return;
  if (!answered()) Succeed(after);
  released_ = over_ = true;
  after.outcome.released = true;
  after.cancel_workers = false;
}

void EvalCall::Succeed(After& after) {
  absl::Status status =
      all_complete_
          ? collector_->Finish()
          : absl::InternalError(
                "a worker left out actions without saying what failed");
  if (!status.ok()) {
    Fail(std::move(status), after);
    return;
  }
  collector_.reset();
  auto& timeline = *options_.reply->mutable_timeline();
  std::sort(timeline.begin(), timeline.end(),
            [](const auto& a, const auto& b) { return a.rank() < b.rank(); });
  FillTimings();
  after.finished = absl::OkStatus();
}

void EvalCall::Fail(absl::Status cause, After& after) {
  if (answered()) return;
  over_ = true;
  collector_.reset();
  after.finished = std::move(cause);
  after.cancel_workers = true;
}

EvalCall::Outcome EvalCall::Cancel(const absl::Status& why) {
  After after;
  {
    absl::MutexLock lock(&mu_);
    if (!released_) Fail(why, after);
  }
  return Act(std::move(after));
}

EvalCall::Outcome EvalCall::EndGeneration(const absl::Status& cause) {
  After after;
  {
    absl::MutexLock lock(&mu_);
    if (released_) return after.outcome;
    Fail(cause, after);
    released_ = over_ = true;
    after.outcome.released = true;
    after.cancel_workers = false;  // they drop the generation's calls anyway
  }
  return Act(std::move(after));
}

EvalCall::Outcome EvalCall::Act(After after) {
  if (after.cancel_workers) {
    v1::CoordinatorMessage message;
    message.mutable_cancel()->set_call_id(id_.value());
    message.mutable_cancel()->set_reason(
        std::string(after.finished->message()));
    for (const auto& worker : workers_) worker->connection->Send(message);
  }
  if (!after.losses.empty() && options_.on_losses) {
    options_.on_losses(after.losses);
  }
  if (after.finished) {
    options_.on_finished(*this, *after.finished);
  }
  return after.outcome;
}

void EvalCall::Release() {
  options_.model.Release();
  place_.Release();
}

void EvalCall::FillTimings() {
  const double run_s =
      absl::ToDoubleSeconds(options_.clock->Now() - dispatched_at_);
  auto* timings = options_.reply->mutable_timings();
  timings->set_run_s(run_s);
  timings->set_execute_s(longest_wall_s_);
  const double available = run_s * static_cast<double>(workers_.size());
  if (available > 0) {
    timings->set_bubble_ratio(std::max(0.0, 1 - busy_s_ / available));
  }
}

void EvalCall::AddTimeline(const Attachment& from, const v1::CallDone& done) {
  auto* timeline = options_.reply->add_timeline();
  timeline->set_rank(from.rank.value());
  timeline->set_worker(from.name);
  const int count =
      std::min({done.timeline_stages_size(), done.timeline_microbatches_size(),
                done.timeline_start_us_size(), done.timeline_end_us_size()});
  for (int i = 0; i < count; ++i) {
    auto* action = timeline->add_actions();
    action->set_action(absl::StrCat(done.timeline_stages(i), "F",
                                    done.timeline_microbatches(i)));
    action->set_start_s(done.timeline_start_us(i) * 1e-6);
    action->set_end_s(done.timeline_end_us(i) * 1e-6);
  }
}

}  // namespace pipestage
