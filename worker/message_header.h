#ifndef PIPESTAGE_WORKER_MESSAGE_HEADER_H_
#define PIPESTAGE_WORKER_MESSAGE_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "tensor/dtype.h"

namespace pipestage {

// What stands before the payload of every message between ranks, so that a pair
// that is out of step is noticed before wrong bytes are used. Plain data;
// encoded as 64 bytes, little endian.
struct MessageHeader {
  Generation generation;
  CallId call;
  StageIndex stage;  // whose output this is
  MicrobatchIndex microbatch;
  int64_t payload_bytes = 0;
  uint64_t digest = 0;  // of the payload's dtypes and shapes, see SpecDigest
  // The sender did not compute: the payload has its full size and no meaning.
  bool is_void = false;
  std::optional<uint32_t> checksum;  // CRC-32C of the payload
};

inline constexpr size_t kMessageHeaderSize = 64;

// `out` has room for kMessageHeaderSize bytes.
void EncodeHeader(const MessageHeader& header, std::byte* out);

// DataLoss if these are not the bytes of a header.
absl::StatusOr<MessageHeader> DecodeHeader(const std::byte* bytes);

// Internal, naming field and both values, unless `got` announces the message
// that `expected` describes. Void and checksum are the sender's business: not
// compared.
absl::Status CheckHeader(const MessageHeader& got,
                         const MessageHeader& expected);

// Folds one more tensor into a digest (0 to begin). The same in every process.
uint64_t SpecDigest(uint64_t digest, DType dtype,
                    absl::Span<const int64_t> shape);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_MESSAGE_HEADER_H_
