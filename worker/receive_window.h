#ifndef PIPESTAGE_WORKER_RECEIVE_WINDOW_H_
#define PIPESTAGE_WORKER_RECEIVE_WINDOW_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "worker/call_shapes.h"
#include "worker/message_header.h"
#include "worker/receive_buffers.h"
#include "worker/stage_tensor.h"
#include "worker/transport/communicator.h"

namespace pipestage {

// Posts receives ahead of need, in the order in which the peers will send, so
// that senders find them waiting. For every peer at most so many messages and
// bytes are posted and not yet taken; always at least the one that is waited
// for.
//
// Expected messages may belong to several calls: those of the next call are
// posted as soon as the last ones of this call leave room.
//
// One thread: the communicator's. After an error the communicator is of no
// more use. Abort the communicator before destroying a window with receives
// under way.
class ReceiveWindow {
 public:
  struct Options {
    // For host memory: Gloo is the faster the more small receives are posted,
    // and the bytes bound memory. On a GPU each occupies a place in the
    // driver's queue: take fewer.
    int max_messages = 1024;
    int64_t max_bytes = int64_t{64} << 20;
    bool operator==(const Options&) const = default;
  };
  struct Expected {
    Rank from;
    MessageHeader header;
    // What the payload consists of, kept alive by `owner`.
    const MessageLayout* layout = nullptr;
    std::shared_ptr<const void> owner;
  };
  struct Received {
    // The sender did not compute; there are no tensors.
    bool is_void = false;
    std::vector<StageTensor> tensors;
  };
  // Names an expected message of this window.
  struct Ticket {
    Rank from;
    int64_t number = -1;
  };

  // None is owned; all outlive the window. `device`: where the buffers are.
  ReceiveWindow(Communicator* communicator, ReceiveBuffers* buffers,
                DeviceKind device, Options options);
  ~ReceiveWindow();

  // Says that this message comes after those of the same peer said before.
  absl::StatusOr<Ticket> Expect(Expected message);

  // Sees to it that the message's receive is posted, waiting for earlier ones
  // of the same peer if the window is full of them.
  absl::Status Reach(Ticket ticket);

  // Waits for the message, checks its header, gives its tensors. Once per
  // ticket. Errors: Internal or DataLoss if it is not what was expected;
  // Operation::Wait's.
  absl::StatusOr<Received> Take(Ticket ticket);

  // Posted to this peer and not yet taken.
  int posted(Rank from) const;

 private:
  struct Message;
  struct Peer {
    std::deque<std::unique_ptr<Message>> messages;  // null: taken
    int64_t first_number = 0;                       // of messages.front()
    int64_t next_to_post = 0;                       // number of
    int posted = 0;                                 // and their bytes
    int64_t posted_bytes = 0;
  };

  absl::Status PostWhatFits(Peer& peer, Rank from);
  absl::Status Post(Peer& peer, Rank from, Message& message);
  absl::Status WaitFor(Peer& peer, Message& message);
  absl::StatusOr<Received> Open(Message& message) const;

  Communicator* const communicator_;
  ReceiveBuffers* const buffers_;
  const DeviceKind device_;
  const Options options_;
  std::vector<Peer> peers_;  // by rank
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_RECEIVE_WINDOW_H_
