#include "worker/coordinator_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/grpc_status.h"
#include "base/log.h"
#include "grpcpp/create_channel.h"

namespace pipestage {
namespace {

// How often the coordinator's silence is looked at.
constexpr absl::Duration kWatchInterval = absl::Milliseconds(500);

std::shared_ptr<grpc::Channel> MakeChannel(
    const CoordinatorLink::Options& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // The coordinator is a neighbour: never through a proxy of the environment.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Each attempt connects anew at once; the pauses between them are ours.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(options.address,
                                   options.credentials != nullptr
                                       ? options.credentials
                                       : grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

CoordinatorLink::CoordinatorLink(Options options, LinkHandler* handler)
    : options_(std::move(options)),
      handler_(handler),
      writer_(LinkWriter::Options()) {}

CoordinatorLink::~CoordinatorLink() { Stop(absl::ZeroDuration()); }

void CoordinatorLink::Start() {
  link_thread_ = std::thread([this] { Loop(); });
  watch_thread_ = std::thread([this] { Watch(); });
}

void CoordinatorLink::Stop(absl::Duration patience) {
  absl::MutexLock stop_lock(&stop_mu_);
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  // The coordinator answers the end of our messages with the end of its own.
  if (patience > absl::ZeroDuration()) writer_.Finish(patience);
  {
    absl::MutexLock lock(&mu_);
    const auto is_over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return context_ == nullptr;
    };
    mu_.AwaitWithTimeout(absl::Condition(&is_over), patience);
    if (context_ != nullptr) context_->TryCancel();
  }
  if (link_thread_.joinable()) link_thread_.join();
  if (watch_thread_.joinable()) watch_thread_.join();
}

void CoordinatorLink::Send(v1::WorkerMessage message) {
  writer_.Send(std::move(message));
}

void CoordinatorLink::Loop() {
  absl::Duration backoff = options_.min_backoff;
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      if (stopping_) return;
    }
    if (Attach()) backoff = options_.min_backoff;
    Pause(backoff * (0.5 + 0.5 * options_.random()));
    backoff = std::min(2 * backoff, options_.max_backoff);
  }
}

bool CoordinatorLink::Attach() {
  grpc::ClientContext context;
  {
    absl::MutexLock lock(&mu_);
    if (stopping_) return false;
    context_ = &context;
    last_heard_ = options_.clock->Now();
    max_silence_ = options_.min_silence;
  }
  const auto stub = v1::WorkerLink::NewStub(MakeChannel(options_));
  const auto stream = stub->Attach(&context);
  v1::WorkerMessage hello;
  *hello.mutable_hello() = options_.hello;
  bool attached = false;
  if (stream->Write(hello) && !Read(*stream, attached)) context.TryCancel();
  writer_.Close();
  const absl::Status status = FromGrpcStatus(stream->Finish());
  bool stopping;
  {
    absl::MutexLock lock(&mu_);
    context_ = nullptr;
    stopping = stopping_;
  }
  const absl::Status reason =
      status.ok() ? absl::UnavailableError("the coordinator ended the stream")
                  : status;
  if (!stopping) LogOnce(reason);
  if (attached) handler_->OnLost(reason);
  return attached;
}

bool CoordinatorLink::Read(Stream& stream, bool& attached) {
  v1::CoordinatorMessage message;
  while (stream.Read(&message)) {
    {
      absl::MutexLock lock(&mu_);
      last_heard_ = options_.clock->Now();
      if (message.has_welcome()) {
        max_silence_ =
            std::max(options_.min_silence,
                     3 * absl::Seconds(message.welcome().ping_interval_s()));
      }
    }
    if (!attached) {
      if (!message.has_welcome()) return false;
      attached = true;
      last_logged_.clear();
      writer_.Open([this, &stream](const v1::WorkerMessage* outgoing) {
        if (outgoing == nullptr) return stream.WritesDone();
        if (stream.Write(*outgoing)) return true;
        // A worker that hears but is not heard is of no use.
        BreakOff("a message could not be sent");
        return false;
      });
      handler_->OnAttached(message.welcome());
    } else {
      handler_->OnMessage(std::move(message));
    }
    message.Clear();
  }
  return true;
}

void CoordinatorLink::BreakOff(absl::string_view why) {
  absl::MutexLock lock(&mu_);
  if (context_ == nullptr) return;
  PIPESTAGE_LOG_WARN("coordinator {}: {}; attaching anew", options_.address,
                     std::string(why));
  context_->TryCancel();
}

void CoordinatorLink::Pause(absl::Duration pause) {
  absl::MutexLock lock(&mu_);
  mu_.AwaitWithTimeout(absl::Condition(&stopping_), pause);
}

void CoordinatorLink::Watch() {
  absl::MutexLock lock(&mu_);
  while (!mu_.AwaitWithTimeout(absl::Condition(&stopping_), kWatchInterval)) {
    const absl::Duration silence = options_.clock->Now() - last_heard_;
    if (context_ == nullptr || silence <= max_silence_) continue;
    PIPESTAGE_LOG_WARN("the coordinator has said nothing for {}",
                       absl::FormatDuration(silence));
    context_->TryCancel();
    last_heard_ = options_.clock->Now();
  }
}

// A coordinator that is away for an hour is one line, not thousands.
void CoordinatorLink::LogOnce(const absl::Status& status) {
  std::string text = status.ToString();
  if (text == last_logged_) return;
  PIPESTAGE_LOG_WARN("coordinator {}: {}", options_.address, text);
  last_logged_ = std::move(text);
}

}  // namespace pipestage
