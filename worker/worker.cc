#include "worker/worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/error_info.h"
#include "base/log.h"
#include "proto/protocol_version.h"
#include "worker/resident_memory.h"

namespace pipestage {
namespace {

// How long a stopping worker waits for the coordinator to hear it out.
constexpr absl::Duration kFarewell = absl::Seconds(2);

constexpr Generation kEveryGeneration(INT64_MAX);

CallRunner::Options RunnerOptions(const Worker::Options& options,
                                  StageActivity* activity) {
  CallRunner::Options runner;
  runner.worker = options.name;
  runner.executor = options.executor;
  runner.executor.activity = activity;
  return runner;
}

}  // namespace

Worker::Worker(Options options)
    : options_(std::move(options)),
      handler_(this),
      link_(LinkOptions(), &handler_),
      models_(options_.repository, options_.loader),
      slot_(&link_, options_.communicator_factory, options_.host,
            options_.network_interface) {}

Worker::~Worker() { Stop(absl::ZeroDuration()); }

v1::Hello Worker::MakeHello() const {
  v1::Hello hello;
  hello.set_protocol_version(kWorkerLinkProtocolVersion);
  hello.set_name(options_.name);
  hello.set_incarnation(options_.incarnation.value());
  hello.set_requested_rank(options_.requested_rank);
  hello.set_device(options_.loader->DescribeDevice());
  for (const std::string& backend : options_.backends) {
    hello.add_backends(backend);
  }
  hello.set_allows_torchscript(options_.allow_torchscript);
  hello.set_feed_window_bytes(options_.feed_window_bytes);
  return hello;
}

CoordinatorLink::Options Worker::LinkOptions() const {
  CoordinatorLink::Options link;
  link.address = options_.coordinator;
  link.credentials = options_.credentials;
  link.hello = MakeHello();
  link.min_backoff = options_.min_backoff;
  link.max_backoff = options_.max_backoff;
  link.random = options_.random;
  link.clock = options_.clock;
  return link;
}

void Worker::Start() {
  loader_thread_ = std::make_unique<TaskThread>();
  runner_ = std::make_unique<CallRunner>(
      RunnerOptions(options_, &activity_),
      CallRunner::Parts{&queue_, &slot_, &plans_, &models_, options_.loader,
                        &link_, options_.clock});
  StageWatch::Options watch;
  watch.limit = options_.stage_timeout;
  stage_watch_ = std::make_unique<StageWatch>(
      watch, &activity_, options_.clock,
      [this](const StageActivity::Work& work, absl::Duration elapsed) {
        OnStuck(work, elapsed);
      });
  link_.Start();
}

void Worker::Stop(absl::Duration patience) {
  absl::MutexLock lock(&stop_mu_);
  if (std::exchange(stopped_, true)) return;
  const absl::Time deadline = absl::Now() + patience;
  TakeLeave(patience);
  queue_.Stop();
  queue_.WaitUntilIdle(deadline - absl::Now());
  link_.Stop(std::min(patience, kFarewell));
  End(kEveryGeneration, absl::CancelledError("the worker stops"));
  runner_.reset();
  stage_watch_.reset();
  loader_thread_.reset();
}

void Worker::TakeLeave(absl::Duration patience) {
  if (patience <= absl::ZeroDuration()) return;
  {
    absl::MutexLock lock(&link_mu_);
    if (!is_attached_ || may_leave_) return;
  }
  SayLeaving(/*at_once=*/false, "it was told to stop");
  absl::MutexLock lock(&link_mu_);
  const auto is_free = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(link_mu_) {
    return may_leave_ || !is_attached_;
  };
  if (!link_mu_.AwaitWithTimeout(absl::Condition(&is_free), patience)) {
    PIPESTAGE_LOG_WARN("leaving after {}, although calls are not done",
                       absl::FormatDuration(patience));
  }
}

void Worker::SayLeaving(bool at_once, const std::string& reason) {
  v1::WorkerMessage message;
  message.mutable_leaving()->set_at_once(at_once);
  message.mutable_leaving()->set_reason(reason);
  link_.Send(std::move(message));
}

void Worker::OnStuck(const StageActivity::Work& work, absl::Duration elapsed) {
  const std::string what = absl::StrCat(
      "stage ", work.stage.value(), " has computed on microbatch ",
      work.microbatch.value(), " of call ", work.call.value(), " for ",
      absl::FormatDuration(elapsed), ", longer than the stage timeout of ",
      absl::FormatDuration(options_.stage_timeout));
  SayLeaving(/*at_once=*/true, what);
  link_.Stop(kFarewell);
  options_.on_stuck(what);
}

void Worker::Handler::OnAttached(const v1::Welcome& welcome) {
  window_ = std::make_shared<FeedWindow>(
      worker_->options_.feed_window_bytes,
      [worker = worker_](int64_t limit) { worker->TellFeedLimit(limit); });
  worker_->SetAttached(true);
  worker_->queue_.BeginAttachment(window_);
  PIPESTAGE_LOG_INFO("attached to {} as rank {} of {}",
                     worker_->options_.coordinator, welcome.rank(),
                     welcome.num_ranks());
}

void Worker::Handler::OnMessage(v1::CoordinatorMessage message) {
  Worker& worker = *worker_;
  switch (message.kind_case()) {
    case v1::CoordinatorMessage::kFeed:
      return worker.queue_.AddFeed(std::move(*message.mutable_feed()));
    case v1::CoordinatorMessage::kRun:
      worker.queue_.PushRun(std::move(*message.mutable_run()));
      return;
    case v1::CoordinatorMessage::kCancel:
      return worker.queue_.Cancel(CallId(message.cancel().call_id()),
                                  message.cancel().reason());
    case v1::CoordinatorMessage::kPing:
      return worker.Answer(message.ping());
    case v1::CoordinatorMessage::kStoreValue:
      return worker.slot_.OnValue(std::move(*message.mutable_store_value()));
    case v1::CoordinatorMessage::kInstallPlan:
      return worker.plans_.Install(message.install_plan().plan());
    case v1::CoordinatorMessage::kForgetPlan:
      return worker.plans_.Forget(message.forget_plan().plan_id());
    case v1::CoordinatorMessage::kFormCommunicator:
      return worker.Form(std::move(*message.mutable_form_communicator()));
    case v1::CoordinatorMessage::kAbortCommunicator:
      return worker.End(Generation(message.abort_communicator().generation()),
                        absl::AbortedError(absl::StrCat(
                            "ended by the coordinator: ",
                            message.abort_communicator().reason())));
    case v1::CoordinatorMessage::kLoadStages:
      return worker.Load(message.load_stages());
    case v1::CoordinatorMessage::kUnloadModel:
      return worker.Unload(message.unload_model());
    case v1::CoordinatorMessage::kShutdown:
      PIPESTAGE_LOG_INFO("the coordinator says: shut down: {}",
                         message.shutdown().reason());
      return worker.LetGo();
    case v1::CoordinatorMessage::kWelcome:
    case v1::CoordinatorMessage::KIND_NOT_SET:
      PIPESTAGE_LOG_WARN("the coordinator sent a message of kind {}",
                         static_cast<int>(message.kind_case()));
  }
}

// What the coordinator has told us is void, but for the models it had us load:
// it names their digests when it comes back.
void Worker::Handler::OnLost(const absl::Status& reason) {
  window_->Close();
  worker_->SetAttached(false);
  worker_->End(kEveryGeneration,
               absl::UnavailableError(
                   absl::StrCat("lost the coordinator: ", reason.message())));
  worker_->plans_.Clear();
}

void Worker::SetAttached(bool attached) {
  absl::MutexLock lock(&link_mu_);
  is_attached_ = attached;
}

void Worker::LetGo() {
  {
    absl::MutexLock lock(&link_mu_);
    may_leave_ = true;
  }
  if (!shutdown_requested_.HasBeenNotified()) shutdown_requested_.Notify();
}

void Worker::Form(v1::FormCommunicator form) {
  if (options_.communicator_timeout > absl::ZeroDuration()) {
    form.set_timeout_s(absl::ToDoubleSeconds(options_.communicator_timeout));
  }
  slot_.Expect(Generation(form.generation()));
  queue_.PushForm(std::move(form));
}

void Worker::End(Generation last, const absl::Status& reason) {
  queue_.EndGenerations(last, reason);
  slot_.End(last, reason);
}

void Worker::Load(const v1::LoadStages& request) {
  loader_thread_->Post([this, request] {
    const ModelKey key = {request.model(), request.version(), request.digest()};
    const absl::StatusOr<int64_t> bytes = models_.Load(key, request.stages());
    v1::WorkerMessage message;
    v1::StagesLoaded& answer = *message.mutable_stages_loaded();
    answer.set_request_id(request.request_id());
    if (bytes.ok()) {
      PIPESTAGE_LOG_INFO("loaded stages {} of {}: {} bytes of weights",
                         absl::StrJoin(request.stages(), ","), key.ToString(),
                         *bytes);
      answer.set_weight_bytes(*bytes);
    } else {
      PIPESTAGE_LOG_WARN("cannot load {}: {}", key.ToString(),
                         bytes.status().ToString());
      *answer.mutable_error() = ToRpcStatus(bytes.status());
    }
    link_.Send(std::move(message));
  });
}

void Worker::Unload(const v1::UnloadModelStages& request) {
  loader_thread_->Post([this, request] {
    const ModelKey key = {request.model(), request.version(), request.digest()};
    models_.Unload(key);
    PIPESTAGE_LOG_INFO("unloaded {}", key.ToString());
  });
}

void Worker::TellFeedLimit(int64_t limit) {
  v1::WorkerMessage message;
  message.mutable_feed_limit()->set_bytes(limit);
  link_.Send(std::move(message));
}

void Worker::Answer(const v1::Ping& ping) {
  v1::WorkerMessage message;
  message.mutable_pong()->set_sequence(ping.sequence());
  message.mutable_pong()->set_resident_bytes(ResidentBytes());
  message.mutable_pong()->set_calls(queue_.num_runs());
  if (const auto work = activity_.current()) {
    v1::Computing& computing = *message.mutable_pong()->mutable_computing();
    computing.set_call_id(work->call.value());
    computing.set_stage(work->stage.value());
    computing.set_microbatch(work->microbatch.value());
    computing.set_seconds(
        absl::ToDoubleSeconds(options_.clock->Now() - work->since));
  }
  link_.Send(std::move(message));
}

}  // namespace pipestage
