#ifndef PIPESTAGE_COORDINATOR_WORKER_CONNECTION_H_
#define PIPESTAGE_COORDINATOR_WORKER_CONNECTION_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "proto/worker_link.pb.h"
#include "tensor/buffer.h"

namespace pipestage {

// A FeedData whose bytes are still where they came from.
struct FeedMessage {
  v1::FeedData header;  // everything but `data`
  Buffer data;
};

// Feeds of one call to one worker, made when the connection can take them, so
// that nothing piles up behind a slow worker.
//
// Called by one thread at a time, with the connection locked: it must not call
// the connection, nor wait for whoever does.
class FeedSource {
 public:
  virtual ~FeedSource() = default;

  // The next message; nullopt when there is none left, or no use for it.
  virtual std::optional<FeedMessage> Next() = 0;
};

// The way to one attached worker.
//
// Thread-safe. No method blocks, and none calls back into its caller: they may
// be called under a lock, which then orders the messages.
class WorkerConnection {
 public:
  virtual ~WorkerConnection() = default;

  // Messages arrive in the order of these calls. After the connection has
  // ended they are dropped.
  virtual void Send(v1::CoordinatorMessage message) = 0;

  // Sends what `source` yields, one message at a time and as the worker's feed
  // limit allows, behind all messages sent before; messages sent later may
  // overtake. Sources follow each other in order.
  virtual void SendFeeds(std::unique_ptr<FeedSource> source) = 0;

  // Ends the stream with this status. What has not gone yet is dropped.
  virtual void Close(absl::Status status) = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_WORKER_CONNECTION_H_
