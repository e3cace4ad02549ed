#include "worker/receive_window.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/crc32c.h"

namespace pipestage {
namespace {

constexpr size_t kAlignment = 64;

size_t Aligned(size_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

// Where a tensor lies behind the header, and behind the tensors before it.
size_t BytesOf(const TensorLayout& tensor) {
  return Aligned(static_cast<size_t>(tensor.bytes));
}

// What the communicator keeps alive while it receives.
struct Landing {
  alignas(kAlignment) std::byte host_header[kMessageHeaderSize];
  Buffer memory;
};

}  // namespace

struct ReceiveWindow::Message {
  explicit Message(Expected what) : expected(std::move(what)) {
    for (const TensorLayout& tensor : expected.layout->tensors) {
      payload_size += BytesOf(tensor);
    }
  }

  const Expected expected;
  size_t payload_size = 0;  // with gaps for alignment
  std::shared_ptr<Landing> landing;
  const std::byte* header = nullptr;
  std::byte* payload = nullptr;
  std::unique_ptr<Operation> operation;  // set while under way
  bool arrived = false;
};

ReceiveWindow::ReceiveWindow(Communicator* communicator,
                             ReceiveBuffers* buffers, DeviceKind device,
                             Options options)
    : communicator_(communicator),
      buffers_(buffers),
      device_(device),
      options_(options),
      peers_(communicator->size()) {}

ReceiveWindow::~ReceiveWindow() = default;

absl::StatusOr<ReceiveWindow::Ticket> ReceiveWindow::Expect(Expected message) {
  const Rank from = message.from;
  Peer& peer = peers_[from.value()];
  const Ticket ticket = {
      from, peer.first_number + static_cast<int64_t>(peer.messages.size())};
  peer.messages.push_back(std::make_unique<Message>(std::move(message)));
  PIPESTAGE_RETURN_IF_ERROR(PostWhatFits(peer, from));
  return ticket;
}

absl::Status ReceiveWindow::PostWhatFits(Peer& peer, Rank from) {
  const int64_t end = peer.first_number + peer.messages.size();
  while (peer.next_to_post < end) {
    Message& message = *peer.messages[peer.next_to_post - peer.first_number];
    const int64_t bytes = peer.posted_bytes + message.payload_size;
    const bool fits =
        peer.posted < options_.max_messages && bytes <= options_.max_bytes;
    if (peer.posted > 0 && !fits) break;
    PIPESTAGE_RETURN_IF_ERROR(Post(peer, from, message));
  }
  return absl::OkStatus();
}

absl::Status ReceiveWindow::Post(Peer& peer, Rank from, Message& message) {
  const bool host = device_ == DeviceKind::kHost;
  message.landing = std::make_shared<Landing>();
  // In host memory the header lies just before the payload, so that a transport
  // can receive both at once.
  const size_t header_size = host ? kMessageHeaderSize : 0;
  Buffer& memory = message.landing->memory;
  if (header_size + message.payload_size > 0) {
    PIPESTAGE_ASSIGN_OR_RETURN(
        memory, buffers_->Take(header_size + message.payload_size));
  }
  std::byte* header =
      host ? memory.mutable_data() : message.landing->host_header;
  message.header = header;
  message.payload = memory.mutable_data() + header_size;

  absl::InlinedVector<MutablePart, 4> parts;
  parts.push_back({header, kMessageHeaderSize, DeviceKind::kHost});
  std::byte* next = message.payload;
  for (const TensorLayout& tensor : message.expected.layout->tensors) {
    if (tensor.bytes == 0) continue;
    parts.push_back({next, static_cast<size_t>(tensor.bytes), device_});
    next += BytesOf(tensor);
  }
  PIPESTAGE_ASSIGN_OR_RETURN(
      message.operation, communicator_->Receive(from, parts, message.landing));
  ++peer.next_to_post;
  ++peer.posted;
  peer.posted_bytes += message.payload_size;
  return absl::OkStatus();
}

absl::Status ReceiveWindow::Reach(Ticket ticket) {
  Peer& peer = peers_[ticket.from.value()];
  int64_t oldest = peer.first_number;
  while (peer.next_to_post <= ticket.number) {
    Message* message = peer.messages[oldest++ - peer.first_number].get();
    if (message == nullptr || message->arrived) continue;
    PIPESTAGE_RETURN_IF_ERROR(WaitFor(peer, *message));
    PIPESTAGE_RETURN_IF_ERROR(PostWhatFits(peer, ticket.from));
  }
  return absl::OkStatus();
}

absl::Status ReceiveWindow::WaitFor(Peer& peer, Message& message) {
  PIPESTAGE_RETURN_IF_ERROR(message.operation->Wait());
  message.operation.reset();
  message.arrived = true;
  --peer.posted;
  peer.posted_bytes -= message.payload_size;
  return absl::OkStatus();
}

absl::StatusOr<ReceiveWindow::Received> ReceiveWindow::Take(Ticket ticket) {
  PIPESTAGE_RETURN_IF_ERROR(Reach(ticket));
  Peer& peer = peers_[ticket.from.value()];
  std::unique_ptr<Message>& slot =
      peer.messages[ticket.number - peer.first_number];
  PIPESTAGE_CHECK(slot != nullptr);
  if (!slot->arrived) PIPESTAGE_RETURN_IF_ERROR(WaitFor(peer, *slot));
  std::unique_ptr<Message> message = std::move(slot);
  while (!peer.messages.empty() && peer.messages.front() == nullptr) {
    peer.messages.pop_front();
    ++peer.first_number;
  }
  PIPESTAGE_RETURN_IF_ERROR(PostWhatFits(peer, ticket.from));
  return Open(*message);
}

absl::StatusOr<ReceiveWindow::Received> ReceiveWindow::Open(
    Message& message) const {
  PIPESTAGE_ASSIGN_OR_RETURN(const MessageHeader header,
                             DecodeHeader(message.header));
  PIPESTAGE_RETURN_IF_ERROR(CheckHeader(header, message.expected.header));
  Received received;
  received.is_void = header.is_void;
  if (header.is_void) return received;

  // A device's memory is not ours to read.
  const bool check =
      header.checksum.has_value() && device_ == DeviceKind::kHost;
  std::byte* next = message.payload;
  uint32_t checksum = 0;
  for (const TensorLayout& tensor : message.expected.layout->tensors) {
    Buffer bytes(message.landing, next, static_cast<size_t>(tensor.bytes));
    if (check) {
      checksum = Crc32c(checksum, bytes.data(), bytes.size());
    }
    received.tensors.push_back(
        {tensor.dtype, tensor.shape, std::move(bytes), device_});
    next += BytesOf(tensor);
  }
  if (check && checksum != *header.checksum) {
    return absl::DataLossError(absl::StrCat(
        "payload of the output of stage ", header.stage.value(),
        " for microbatch ", header.microbatch.value(), " has CRC-32C ",
        absl::Hex(checksum, absl::kZeroPad8), "; its header says ",
        absl::Hex(*header.checksum, absl::kZeroPad8)));
  }
  return received;
}

int ReceiveWindow::posted(Rank from) const {
  return peers_[from.value()].posted;
}

}  // namespace pipestage
