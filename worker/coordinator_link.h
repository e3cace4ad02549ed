#ifndef PIPESTAGE_WORKER_COORDINATOR_LINK_H_
#define PIPESTAGE_WORKER_COORDINATOR_LINK_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "grpcpp/security/credentials.h"
#include "proto/worker_link.grpc.pb.h"
#include "proto/worker_link.pb.h"
#include "worker/link_writer.h"
#include "worker/outbox.h"

namespace pipestage {

// Hears what the coordinator says. Called by the link's thread, one call at a
// time; nothing here may block for long, for pings are answered in between.
class LinkHandler {
 public:
  virtual ~LinkHandler() = default;

  virtual void OnAttached(const v1::Welcome& welcome) = 0;
  virtual void OnMessage(v1::CoordinatorMessage message) = 0;
  // The stream of an attachment is over; another may follow.
  virtual void OnLost(const absl::Status& reason) = 0;
};

// The worker's stream to its coordinator: dials, says Hello, and dials again
// with growing pauses when the stream is lost or refused.
//
// Thread-safe. The handler must be ready before Start and until Stop has
// returned.
class CoordinatorLink : public Outbox {
 public:
  struct Options {
    std::string address;                                    // host:port
    std::shared_ptr<grpc::ChannelCredentials> credentials;  // null: insecure
    v1::Hello hello;
    absl::Duration min_backoff = absl::Milliseconds(200);
    absl::Duration max_backoff = absl::Seconds(5);
    // A coordinator silent for so long (or three of its ping intervals,
    // whichever is longer) is given up.
    absl::Duration min_silence = absl::Seconds(10);
    // Uniform in [0, 1): spreads the workers' attempts.
    std::function<double()> random;
    Clock* clock = nullptr;  // not owned
  };

  CoordinatorLink(Options options, LinkHandler* handler);
  ~CoordinatorLink() override;

  void Start();
  // Lets what was given to Send leave, for at most `patience`, and ends the
  // stream. Idempotent.
  void Stop(absl::Duration patience);

  void Send(v1::WorkerMessage message) override;

 private:
  using Stream = grpc::ClientReaderWriterInterface<v1::WorkerMessage,
                                                   v1::CoordinatorMessage>;

  void Loop();
  // One attachment from dialling to its end; whether it got as far as Welcome.
  bool Attach();
  // Until the stream is over; false if the coordinator breaks the protocol.
  bool Read(Stream& stream, bool& attached);
  // Ends the attachment under way, to begin another.
  void BreakOff(absl::string_view why);
  // Sleeps unless stopped.
  void Pause(absl::Duration pause);
  // Gives up a coordinator that says nothing.
  void Watch();
  void LogOnce(const absl::Status& status);

  const Options options_;
  LinkHandler* const handler_;
  LinkWriter writer_;

  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;
  absl::Time last_heard_ ABSL_GUARDED_BY(mu_);
  absl::Duration max_silence_ ABSL_GUARDED_BY(mu_);

  absl::Mutex stop_mu_ ABSL_ACQUIRED_BEFORE(mu_);  // one Stop at a time

  std::string last_logged_;  // of the link's thread
  std::thread link_thread_;
  std::thread watch_thread_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_COORDINATOR_LINK_H_
