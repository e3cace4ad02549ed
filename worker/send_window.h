#ifndef PIPESTAGE_WORKER_SEND_WINDOW_H_
#define PIPESTAGE_WORKER_SEND_WINDOW_H_

#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "tensor/buffer.h"
#include "worker/call_shapes.h"
#include "worker/message_header.h"
#include "worker/stage_tensor.h"
#include "worker/transport/communicator.h"

namespace pipestage {

// Sends stage outputs without waiting for them, up to a bound for every peer:
// the compute thread waits for the oldest send only when the bound is reached.
// Tensors are kept alive until their send is done.
//
// One thread: the communicator's. After an error the communicator is of no
// more use. Abort the communicator before destroying a window with sends under
// way.
class SendWindow {
 public:
  struct Options {
    int max_messages = 64;
    // Of payloads; two messages are under way whatever their size.
    int64_t max_bytes = int64_t{64} << 20;
    bool checksum = false;  // of payloads in host memory
    bool operator==(const Options&) const = default;
  };

  // Not owned; outlives the window.
  SendWindow(Communicator* communicator, Options options);
  ~SendWindow();

  // Sends `tensors`, which have the layout that `header` announces.
  absl::Status Send(Rank to, MessageHeader header,
                    std::vector<StageTensor> tensors);

  // Sends a message of the same size that says: not computed. `filler` has at
  // least the bytes of the largest tensor of `layout`; what is in it does not
  // matter.
  absl::Status SendVoid(Rank to, MessageHeader header,
                        const MessageLayout& layout, const StageTensor& filler);

  // Sends to this peer that were not yet waited for.
  int outstanding(Rank to) const;

 private:
  struct Sent {
    std::unique_ptr<Operation> operation;
    int64_t bytes;
  };
  struct Peer {
    std::deque<Sent> sent;
    int64_t bytes = 0;
  };

  // Waits until a message of this size may go.
  absl::Status MakeRoom(Peer& peer, int64_t bytes);
  absl::Status Start(Rank to, absl::Span<const ConstPart> parts,
                     std::shared_ptr<const void> keepalive);

  Communicator* const communicator_;
  const Options options_;
  std::vector<Peer> peers_;  // by rank
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_SEND_WINDOW_H_
