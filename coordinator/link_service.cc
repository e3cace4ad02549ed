#include "coordinator/link_service.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/grpc_status.h"
#include "coordinator/feed_encoding.h"
#include "coordinator/worker_connection.h"

namespace pipestage {
namespace {

int64_t RidingBytes(const v1::Run& run) {
  int64_t bytes = 0;
  for (const auto& feed : run.feeds()) {
    bytes += static_cast<int64_t>(feed.data().size());
  }
  return bytes;
}

using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

// The writing half of a stream. Outlives the stream: then it drops what it is
// given.
class LinkConnection final : public WorkerConnection {
 public:
  LinkConnection(Reactor* reactor, grpc::CallbackServerContext* context,
                 Traffic* traffic)
      : traffic_(traffic), reactor_(reactor), context_(context) {}

  void Send(v1::CoordinatorMessage message) override {
    absl::MutexLock lock(&mu_);
    if (ending_) return;
    messages_.push_back(std::move(message));
    WriteNext();
  }

  void SendFeeds(std::unique_ptr<FeedSource> source) override {
    absl::MutexLock lock(&mu_);
    if (ending_) return;
    sources_.push_back(std::move(source));
    WriteNext();
  }

  // See v1::FeedLimit.
  void RaiseFeedLimit(int64_t bytes) {
    absl::MutexLock lock(&mu_);
    feed_limit_ = std::max(feed_limit_, bytes);
    WriteNext();
  }

  void Close(absl::Status status) override {
    absl::MutexLock lock(&mu_);
    if (ending_) return;
    ending_ = true;
    status_ = std::move(status);
    messages_.clear();
    sources_.clear();
    // A worker that does not read would keep the write for ever.
    if (writing_) context_->TryCancel();
    WriteNext();
  }

  void OnWriteDone() {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    outgoing_.Clear();
    WriteNext();
  }

  // The stream is over; the reactor goes.
  void Forget() {
    absl::MutexLock lock(&mu_);
    ending_ = true;
    reactor_ = nullptr;
    context_ = nullptr;
    messages_.clear();
    sources_.clear();
  }

 private:
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (writing_ || reactor_ == nullptr) return;
    if (ending_) {
      if (!std::exchange(finished_, true)) {
        reactor_->Finish(ToGrpcStatus(status_));
      }
      return;
    }
    if (!TakeMessage() && !TakeFeed()) return;
    writing_ = true;
    reactor_->StartWrite(&outgoing_);
  }

  bool TakeMessage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (messages_.empty()) return false;
    const v1::CoordinatorMessage message = std::move(messages_.front());
    messages_.pop_front();
    bool own_buffer;
    grpc::SerializationTraits<v1::CoordinatorMessage>::Serialize(
        message, &outgoing_, &own_buffer);
    traffic_->CountSent(message, outgoing_.Length());
    if (message.has_run()) fed_ += RidingBytes(message.run());
    return true;
  }

  bool TakeFeed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    while (!sources_.empty() && fed_ < feed_limit_) {
      std::optional<FeedMessage> feed = sources_.front()->Next();
      if (feed) {
        fed_ += static_cast<int64_t>(feed->data.size());
        outgoing_ = EncodeFeed(*std::move(feed));
        traffic_->CountFeedSent(outgoing_.Length());
        return true;
      }
      sources_.pop_front();
    }
    return false;
  }

  Traffic* const traffic_;
  absl::Mutex mu_;
  Reactor* reactor_ ABSL_GUARDED_BY(mu_);
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mu_);
  std::deque<v1::CoordinatorMessage> messages_ ABSL_GUARDED_BY(mu_);
  std::deque<std::unique_ptr<FeedSource>> sources_ ABSL_GUARDED_BY(mu_);
  int64_t fed_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t feed_limit_ ABSL_GUARDED_BY(mu_) = 0;
  grpc::ByteBuffer outgoing_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

// The reading half, which owns itself until OnDone.
class LinkReactor final : public Reactor {
 public:
  LinkReactor(grpc::CallbackServerContext* context,
              const LinkService::Dependencies& on)
      : pipeline_(on.pipeline),
        traffic_(on.traffic),
        timers_(on.timers),
        connection_(
            std::make_shared<LinkConnection>(this, context, on.traffic)),
        hello_timer_(timers_->At(
            on.clock->Now() + on.hello_timeout,
            [connection = connection_, limit = on.hello_timeout] {
              connection->Close(absl::DeadlineExceededError(
                  absl::StrCat("a worker link must begin with Hello within ",
                               absl::FormatDuration(limit))));
            })) {
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      End(absl::UnavailableError("its stream ended"));
      return;
    }
    const size_t bytes = incoming_.Length();
    v1::WorkerMessage message;
    if (!grpc::SerializationTraits<v1::WorkerMessage>::Deserialize(&incoming_,
                                                                   &message)
             .ok()) {
      End(absl::InvalidArgumentError("its message does not parse"));
      return;
    }
    traffic_->CountReceived(message, bytes);
    if (message.has_feed_limit()) {
      connection_->RaiseFeedLimit(message.feed_limit().bytes());
    } else if (attachment_ != nullptr) {
      pipeline_->OnMessage(*attachment_, message);
    } else if (!Attach(message)) {
      return;
    }
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override { connection_->OnWriteDone(); }

  void OnDone() override {
    timers_->Cancel(hello_timer_);
    connection_->Forget();
    if (attachment_ != nullptr) {
      pipeline_->Detach(*attachment_,
                        absl::UnavailableError("its stream ended"));
    }
    delete this;
  }

 private:
  bool Attach(const v1::WorkerMessage& message) {
    if (!message.has_hello()) {
      connection_->Close(absl::InvalidArgumentError(
          "the first message of a worker link must be Hello"));
      return false;
    }
    auto attachment = pipeline_->Attach(message.hello(), connection_);
    if (!attachment.ok()) {
      connection_->Close(attachment.status());
      return false;
    }
    attachment_ = *std::move(attachment);
    timers_->Cancel(hello_timer_);
    connection_->RaiseFeedLimit(message.hello().feed_window_bytes());
    return true;
  }

  void End(const absl::Status& why) {
    if (attachment_ != nullptr) pipeline_->Detach(*attachment_, why);
    connection_->Close(why);
  }

  Pipeline* const pipeline_;
  Traffic* const traffic_;
  Timers* const timers_;
  const std::shared_ptr<LinkConnection> connection_;
  const Timers::Id hello_timer_;
  grpc::ByteBuffer incoming_;
  std::shared_ptr<const Attachment> attachment_;
};

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
LinkService::Attach(grpc::CallbackServerContext* context) {
  return new LinkReactor(context, on_);
}

}  // namespace pipestage
