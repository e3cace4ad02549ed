#include "coordinator/feed_encoding.h"

#include <string>
#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "grpcpp/support/slice.h"

namespace pipestage {
namespace {

using ::google::protobuf::io::CodedOutputStream;
using ::google::protobuf::io::StringOutputStream;

// Below this, a slice of its own costs more than copying.
constexpr size_t kMinBorrowedBytes = 4096;
constexpr uint32_t kLengthDelimited = 2;

uint32_t LengthDelimitedTag(int field_number) {
  return static_cast<uint32_t>(field_number) << 3 | kLengthDelimited;
}

// Everything that comes before the bytes themselves.
std::string EncodePrefix(const FeedMessage& message) {
  const uint32_t data_tag = LengthDelimitedTag(v1::FeedData::kDataFieldNumber);
  const uint32_t feed_tag =
      LengthDelimitedTag(v1::CoordinatorMessage::kFeedFieldNumber);
  const size_t size = message.data.size();
  const std::string header = message.header.SerializeAsString();
  const size_t feed_size = header.size() +
                           CodedOutputStream::VarintSize32(data_tag) +
                           CodedOutputStream::VarintSize64(size) + size;
  std::string prefix;
  StringOutputStream stream(&prefix);
  CodedOutputStream out(&stream);
  out.WriteTag(feed_tag);
  out.WriteVarint64(feed_size);
  out.WriteString(header);
  out.WriteTag(data_tag);
  out.WriteVarint64(size);
  out.Trim();
  return prefix;
}

grpc::Slice BorrowedSlice(Buffer data) {
  auto* owner = new Buffer(std::move(data));
  return grpc::Slice(
      const_cast<std::byte*>(owner->data()), owner->size(),
      [](void* user_data) { delete static_cast<Buffer*>(user_data); }, owner);
}

}  // namespace

grpc::ByteBuffer EncodeFeed(FeedMessage message) {
  std::string prefix = EncodePrefix(message);
  if (message.data.size() < kMinBorrowedBytes) {
    prefix.append(reinterpret_cast<const char*>(message.data.data()),
                  message.data.size());
    const grpc::Slice slice(prefix);
    return grpc::ByteBuffer(&slice, 1);
  }
  const grpc::Slice slices[] = {grpc::Slice(prefix),
                                BorrowedSlice(std::move(message.data))};
  return grpc::ByteBuffer(slices, 2);
}

}  // namespace pipestage
