#include "coordinator/server.h"

#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/listen_address.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"

namespace pipestage {
namespace {

constexpr char kVersion[] = "0.1.0";
constexpr char kPipelineServiceName[] = "pipestage.v1.PipelineService";
// How finely membership sees time: finer than its shortest interval.
constexpr absl::Duration kTick = absl::Milliseconds(50);
// For the last answers to leave, and after a drain for workers to hang up.
constexpr absl::Duration kFarewell = absl::Milliseconds(100);
constexpr absl::Duration kDrainFarewell = absl::Seconds(2);

absl::Status CheckAtLeastOne(absl::string_view what, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", value, "; at least 1"));
}

absl::Status CheckOptions(const Server::Options& options) {
  PIPESTAGE_RETURN_IF_ERROR(
      CheckAtLeastOne("the number of workers", options.membership.num_ranks));
  PIPESTAGE_RETURN_IF_ERROR(
      CheckAtLeastOne("the message limit", options.max_message_bytes));
  PIPESTAGE_RETURN_IF_ERROR(
      CheckAtLeastOne("the call limit", options.max_call_bytes));
  PIPESTAGE_RETURN_IF_ERROR(CheckAtLeastOne("the number of running calls",
                                            options.admission.max_running));
  if (options.max_message_bytes > INT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("the message limit is ", options.max_message_bytes,
                     "; gRPC's own is ", INT32_MAX));
  }
  if (options.membership.worker_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("the worker timeout is not positive");
  }
  const absl::Status address = CheckLoopback(options.address);
  if (options.allow_any_address && absl::IsFailedPrecondition(address)) {
    return absl::OkStatus();
  }
  return address;
}

Dispatcher::Options WithEpoch(Dispatcher::Options options, Epoch epoch) {
  options.epoch = epoch;
  return options;
}

Admission::Options WithClock(Admission::Options options, Clock* clock) {
  options.clock = clock;
  return options;
}

void SetTransportOptions(grpc::ServerBuilder& builder, int max_message_bytes) {
  builder.SetMaxReceiveMessageSize(max_message_bytes);
  // Feeds to workers may be larger; replies are measured before they are made.
  builder.SetMaxSendMessageSize(-1);
  // Two coordinators on one port would each get some of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 64);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // gRPC's default takes a ping more often than every five minutes for an
  // attack.
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Create(Options options) {
  PIPESTAGE_RETURN_IF_ERROR(CheckOptions(options));
  return std::unique_ptr<Server>(new Server(std::move(options)));
}

Server::Server(Options options)
    : options_(std::move(options)),
      started_at_(options_.clock->Now()),
      timers_(options_.clock),
      pipeline_(options_.membership, options_.clock, this),
      models_({options_.model_repository, options_.membership.num_ranks,
               options_.membership.epoch}),
      plans_(options_.plans),
      admission_(WithClock(options_.admission, options_.clock)),
      dispatcher_(WithEpoch(options_.dispatcher, options_.membership.epoch),
                  &pipeline_),
      runner_({options_.membership.epoch, options_.max_message_bytes},
              {options_.clock, &timers_, &pipeline_, &models_, &plans_,
               &admission_, &dispatcher_}),
      startup_models_(options_.load, &models_),
      link_service_({options_.clock, &timers_, &pipeline_, &traffic_,
                     options_.hello_timeout}),
      pipeline_service_({options_.max_message_bytes,
                         {.max_bytes = options_.max_call_bytes},
                         options_.pace},
                        &runner_, &admission_, options_.clock, &timers_),
      model_service_(&models_),
      status_service_([this] { return GetStatus(); }) {}

Server::~Server() { Stop(); }

absl::Status Server::Start() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetTransportOptions(builder, static_cast<int>(options_.max_message_bytes));
  int port = 0;
  builder.AddListeningPort(options_.address, grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&link_service_);
  builder.RegisterService(&pipeline_service_);
  builder.RegisterService(&model_service_);
  builder.RegisterService(&status_service_);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options_.address));
  }
  address_ = absl::StartsWith(options_.address, "unix:")
                 ? options_.address
                 : absl::StrCat(options_.address.substr(
                                    0, options_.address.rfind(':') + 1),
                                port);
  health_ = server_->GetHealthCheckService();
  UpdateHealth();
  ArmTick();
  timers_.Start();
  return absl::OkStatus();
}

void Server::ArmTick() {
  timers_.At(options_.clock->Now() + kTick, [this] {
    pipeline_.Tick();
    // In this order: see Dispatcher::Dispatch.
    if (!pipeline_.view()->leaving.empty() && dispatcher_.num_calls() == 0) {
      pipeline_.DismissLeaving();
    }
    admission_.ExpireWaits();
    ArmTick();
  });
}

void Server::OnViewChanged(const std::shared_ptr<const PipelineView>& view) {
  dispatcher_.OnViewChanged(*view);
  models_.OnViewChanged(view);
  if (CheckAttached(*view, view->num_ranks()).ok()) startup_models_.Load();
  UpdateHealth();
}

void Server::OnStagesLoaded(const Attachment& from,
                            const v1::StagesLoaded& loaded) {
  models_.OnStagesLoaded(from, loaded);
  UpdateHealth();
}

void Server::OnCallMessage(const Attachment& from, v1::WorkerMessage& message) {
  dispatcher_.OnCallMessage(from, message);
}

void Server::OnIdle(const Attachment& from, absl::Time since) {
  dispatcher_.OnIdle(from, since);
}

bool Server::IsServing() const {
  return !draining_ && pipeline_.view()->ready() && !models_.IsRestoring();
}

void Server::UpdateHealth() {
  grpc::HealthCheckServiceInterface* const health = health_;
  if (health == nullptr) return;
  absl::MutexLock lock(&health_mu_);
  const bool serving = IsServing();
  health->SetServingStatus("", serving);
  health->SetServingStatus(kPipelineServiceName, serving);
}

v1::Status Server::GetStatus() const {
  v1::Status status;
  status.set_version(kVersion);
  status.set_uptime_s(
      absl::ToDoubleSeconds(options_.clock->Now() - started_at_));
  status.set_epoch(options_.membership.epoch.value());
  pipeline_.FillStatus(status);
  if (draining_) {
    status.set_state(v1::DRAINING);
  } else if (status.state() == v1::READY && models_.IsRestoring()) {
    // Calls would be refused until the worker that came back has its stages.
    status.set_state(v1::FORMING);
  }
  for (auto& worker : *status.mutable_workers()) {
    for (auto& stage : models_.StagesAt(Rank(worker.rank()))) {
      worker.add_stages(std::move(stage));
    }
  }
  for (auto& name : models_.Serving()) status.add_serving(std::move(name));
  const PlanCache::Counts plans = plans_.counts();
  status.mutable_plan_cache()->set_hits(plans.hits);
  status.mutable_plan_cache()->set_misses(plans.misses);
  status.mutable_plan_cache()->set_entries(plans.entries);
  const Admission::Counts calls = admission_.counts();
  auto* queue = status.mutable_queue();
  queue->set_calls_waiting(calls.waiting);
  queue->set_calls_running(calls.running);
  queue->set_bytes_admitted(calls.bytes);
  queue->set_max_calls_waiting(admission_.options().max_waiting);
  queue->set_max_bytes(admission_.options().max_bytes);
  *status.mutable_traffic() = traffic_.status();
  status.set_calls_succeeded(runner_.counts().succeeded);
  status.set_calls_failed(runner_.counts().failed);
  return status;
}

bool Server::IsIdle() const {
  return runner_.counts().open == 0 && dispatcher_.num_calls() == 0;
}

void Server::Drain(absl::Duration grace) {
  if (draining_.exchange(true)) return;
  PIPESTAGE_LOG_INFO("draining: no new calls; {} to finish",
                     runner_.counts().open);
  UpdateHealth();
  admission_.CloseQueue(
      WithReason(absl::UnavailableError("the coordinator is shutting down"),
                 reason::kDraining));
  const absl::Time until = absl::Now() + grace;
  while (!IsIdle() && absl::Now() < until) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  if (!IsIdle()) {
    PIPESTAGE_LOG_WARN("{} calls did not finish within {}",
                       runner_.counts().open, absl::FormatDuration(grace));
  }
  pipeline_.ShutDownWorkers("the coordinator is shutting down");
  Stop();
}

void Server::Stop() {
  {
    absl::MutexLock lock(&stop_mu_);
    if (std::exchange(stopped_, true)) return;
  }
  const absl::Status stopped =
      WithReason(absl::UnavailableError("the coordinator has shut down"),
                 reason::kDraining);
  admission_.CloseQueue(stopped);
  admission_.ExpelWaiting(stopped);
  dispatcher_.CancelAll(stopped);
  if (server_ != nullptr) {
    // Ends streams that do not end by themselves, such as those of workers.
    const absl::Duration farewell = draining_ ? kDrainFarewell : kFarewell;
    server_->Shutdown(std::chrono::system_clock::now() +
                      absl::ToChronoMilliseconds(farewell));
  }
  timers_.Stop();
}

}  // namespace pipestage
