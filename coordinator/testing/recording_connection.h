#ifndef PIPESTAGE_COORDINATOR_TESTING_RECORDING_CONNECTION_H_
#define PIPESTAGE_COORDINATOR_TESTING_RECORDING_CONNECTION_H_

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/worker_connection.h"

namespace pipestage {

// A connection that keeps what it is given, feeds made into messages at once.
//
// Thread-safe.
class RecordingConnection final : public WorkerConnection {
 public:
  void Send(v1::CoordinatorMessage message) override {
    absl::MutexLock lock(&mu_);
    messages_.push_back(std::move(message));
  }

  void SendFeeds(std::unique_ptr<FeedSource> source) override {
    absl::MutexLock lock(&mu_);
    while (std::optional<FeedMessage> feed = source->Next()) {
      v1::CoordinatorMessage message;
      *message.mutable_feed() = feed->header;
      message.mutable_feed()->set_data(feed->data.data(), feed->data.size());
      messages_.push_back(std::move(message));
    }
  }

  void Close(absl::Status status) override {
    absl::MutexLock lock(&mu_);
    closed_ = std::move(status);
  }

  std::vector<v1::CoordinatorMessage> Take() {
    absl::MutexLock lock(&mu_);
    return std::exchange(messages_, {});
  }
  std::optional<absl::Status> closed() {
    absl::MutexLock lock(&mu_);
    return closed_;
  }

 private:
  absl::Mutex mu_;
  std::vector<v1::CoordinatorMessage> messages_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_TESTING_RECORDING_CONNECTION_H_
