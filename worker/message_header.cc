#include "worker/message_header.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace pipestage {
namespace {

static_assert(std::endian::native == std::endian::little,
              "headers are written as they lie in memory");

constexpr uint32_t kMagic = 0x31475350;  // "PSG1"
constexpr uint32_t kVoidFlag = 1;
constexpr uint32_t kChecksumFlag = 2;
constexpr uint32_t kKnownFlags = kVoidFlag | kChecksumFlag;

struct WireHeader {
  uint32_t magic;
  uint32_t flags;
  int64_t generation;
  int64_t call;
  int32_t stage;
  int32_t microbatch;
  int64_t payload_bytes;
  uint64_t digest;
  uint32_t checksum;
  uint32_t reserved[3];
};
static_assert(sizeof(WireHeader) == kMessageHeaderSize);
static_assert(std::is_trivially_copyable_v<WireHeader>);

template <typename T>
absl::Status Mismatch(absl::string_view field, T got, T expected) {
  return absl::InternalError(absl::StrCat("message out of step: its ", field,
                                          " is ", got, "; the plan says ",
                                          expected));
}

// The finaliser of MurmurHash3: every bit of the input reaches every bit.
uint64_t Mix(uint64_t digest, uint64_t value) {
  uint64_t h = (digest ^ value) + 0x9e3779b97f4a7c15;
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccd;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53;
  return h ^ (h >> 33);
}

}  // namespace

void EncodeHeader(const MessageHeader& header, std::byte* out) {
  WireHeader wire = {};
  wire.magic = kMagic;
  wire.flags = (header.is_void ? kVoidFlag : 0) |
               (header.checksum.has_value() ? kChecksumFlag : 0);
  wire.generation = header.generation.value();
  wire.call = header.call.value();
  wire.stage = header.stage.value();
  wire.microbatch = header.microbatch.value();
  wire.payload_bytes = header.payload_bytes;
  wire.digest = header.digest;
  wire.checksum = header.checksum.value_or(0);
  std::memcpy(out, &wire, sizeof(wire));
}

absl::StatusOr<MessageHeader> DecodeHeader(const std::byte* bytes) {
  WireHeader wire;
  std::memcpy(&wire, bytes, sizeof(wire));
  if (wire.magic != kMagic) {
    return absl::DataLossError(absl::StrCat(
        "message header begins with ", absl::Hex(wire.magic, absl::kZeroPad8),
        " instead of ", absl::Hex(kMagic, absl::kZeroPad8)));
  }
  if ((wire.flags & ~kKnownFlags) != 0) {
    return absl::DataLossError(
        absl::StrCat("message header has unknown flags ", absl::Hex(wire.flags),
                     "; known are ", absl::Hex(kKnownFlags)));
  }
  MessageHeader header;
  header.generation = Generation(wire.generation);
  header.call = CallId(wire.call);
  header.stage = StageIndex(wire.stage);
  header.microbatch = MicrobatchIndex(wire.microbatch);
  header.payload_bytes = wire.payload_bytes;
  header.digest = wire.digest;
  header.is_void = (wire.flags & kVoidFlag) != 0;
  if ((wire.flags & kChecksumFlag) != 0) header.checksum = wire.checksum;
  return header;
}

absl::Status CheckHeader(const MessageHeader& got,
                         const MessageHeader& expected) {
  if (got.generation != expected.generation) {
    return Mismatch("generation", got.generation.value(),
                    expected.generation.value());
  }
  if (got.call != expected.call) {
    return Mismatch("call", got.call.value(), expected.call.value());
  }
  if (got.stage != expected.stage) {
    return Mismatch("stage", got.stage.value(), expected.stage.value());
  }
  if (got.microbatch != expected.microbatch) {
    return Mismatch("microbatch", got.microbatch.value(),
                    expected.microbatch.value());
  }
  if (got.payload_bytes != expected.payload_bytes) {
    return Mismatch("payload", absl::StrCat(got.payload_bytes, " bytes"),
                    absl::StrCat(expected.payload_bytes, " bytes"));
  }
  if (got.digest != expected.digest) {
    return Mismatch("digest of dtypes and shapes", got.digest, expected.digest);
  }
  return absl::OkStatus();
}

uint64_t SpecDigest(uint64_t digest, DType dtype,
                    absl::Span<const int64_t> shape) {
  digest = Mix(digest, static_cast<uint64_t>(dtype));
  digest = Mix(digest, shape.size());
  for (int64_t size : shape) digest = Mix(digest, static_cast<uint64_t>(size));
  return digest;
}

}  // namespace pipestage
