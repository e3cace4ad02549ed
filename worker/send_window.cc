#include "worker/send_window.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "base/status_macros.h"
#include "worker/crc32c.h"

namespace pipestage {
namespace {

// A message under way: what the communicator keeps alive.
struct Outgoing {
  alignas(64) std::byte header[kMessageHeaderSize];
  std::vector<StageTensor> tensors;
};

using Parts = absl::InlinedVector<ConstPart, 4>;

uint32_t ChecksumOf(absl::Span<const StageTensor> tensors) {
  uint32_t checksum = 0;
  for (const StageTensor& tensor : tensors) {
    checksum = Crc32c(checksum, tensor.data.data(), tensor.data.size());
  }
  return checksum;
}

bool AllOnHost(absl::Span<const StageTensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
    return tensor.device == DeviceKind::kHost;
  });
}

}  // namespace

SendWindow::SendWindow(Communicator* communicator, Options options)
    : communicator_(communicator),
      options_(options),
      peers_(communicator->size()) {}

SendWindow::~SendWindow() = default;

absl::Status SendWindow::Send(Rank to, MessageHeader header,
                              std::vector<StageTensor> tensors) {
  header.is_void = false;
  if (options_.checksum && AllOnHost(tensors)) {
    header.checksum = ChecksumOf(tensors);
  }
  auto outgoing = std::make_shared<Outgoing>();
  EncodeHeader(header, outgoing->header);
  outgoing->tensors = std::move(tensors);

  Parts parts;
  parts.push_back({outgoing->header, kMessageHeaderSize, DeviceKind::kHost});
  for (const StageTensor& tensor : outgoing->tensors) {
    if (tensor.data.empty()) continue;
    parts.push_back({tensor.data.data(), tensor.data.size(), tensor.device});
  }
  return Start(to, parts, std::move(outgoing));
}

absl::Status SendWindow::SendVoid(Rank to, MessageHeader header,
                                  const MessageLayout& layout,
                                  const StageTensor& filler) {
  header.is_void = true;
  auto outgoing = std::make_shared<Outgoing>();
  EncodeHeader(header, outgoing->header);
  outgoing->tensors.push_back(filler);

  Parts parts;
  parts.push_back({outgoing->header, kMessageHeaderSize, DeviceKind::kHost});
  for (const TensorLayout& tensor : layout.tensors) {
    if (tensor.bytes == 0) continue;
    parts.push_back(
        {filler.data.data(), static_cast<size_t>(tensor.bytes), filler.device});
  }
  return Start(to, parts, std::move(outgoing));
}

absl::Status SendWindow::MakeRoom(Peer& peer, int64_t bytes) {
  while (peer.sent.size() >= options_.max_messages ||
         (peer.sent.size() >= 2 && peer.bytes + bytes > options_.max_bytes)) {
    PIPESTAGE_RETURN_IF_ERROR(peer.sent.front().operation->Wait());
    peer.bytes -= peer.sent.front().bytes;
    peer.sent.pop_front();
  }
  return absl::OkStatus();
}

absl::Status SendWindow::Start(Rank to, absl::Span<const ConstPart> parts,
                               std::shared_ptr<const void> keepalive) {
  Peer& peer = peers_[to.value()];
  int64_t bytes = 0;
  for (const ConstPart& part : parts) bytes += static_cast<int64_t>(part.size);
  PIPESTAGE_RETURN_IF_ERROR(MakeRoom(peer, bytes));
  PIPESTAGE_ASSIGN_OR_RETURN(
      std::unique_ptr<Operation> operation,
      communicator_->Send(to, parts, std::move(keepalive)));
  peer.sent.push_back({std::move(operation), bytes});
  peer.bytes += bytes;
  return absl::OkStatus();
}

int SendWindow::outstanding(Rank to) const {
  return static_cast<int>(peers_[to.value()].sent.size());
}

}  // namespace pipestage
