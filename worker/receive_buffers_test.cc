#include "worker/receive_buffers.h"

#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

absl::StatusOr<Buffer> FromHeap(size_t size) { return Buffer::Allocate(size); }

TEST(ReceiveBuffersTest, BufferComesBackAndIsUsedAgain) {
  ReceiveBuffers buffers(FromHeap, 1 << 20);

  for (int i = 0; i < 100; ++i) {
    ASSERT_THAT(buffers.Take(1000), IsOk());
    ASSERT_THAT(buffers.Take(2000), IsOk());
  }

  EXPECT_EQ(buffers.allocations(), 2);
  EXPECT_EQ(buffers.idle_bytes(), 3000);
}

TEST(ReceiveBuffersTest, BufferInUseIsNotGivenAgain) {
  ReceiveBuffers buffers(FromHeap, 1 << 20);
  const Buffer first = *buffers.Take(64);
  const Buffer part = first.Slice(0, 8);

  const Buffer second = *buffers.Take(64);

  EXPECT_NE(first.data(), second.data());
}

TEST(ReceiveBuffersTest, SizesLongUnusedAreDroppedFirst) {
  ReceiveBuffers buffers(FromHeap, 1000);

  ASSERT_THAT(buffers.Take(600), IsOk());
  ASSERT_THAT(buffers.Take(700), IsOk());

  EXPECT_EQ(buffers.idle_bytes(), 700);
}

TEST(ReceiveBuffersTest, BufferMayOutliveThePool) {
  auto buffers = std::make_unique<ReceiveBuffers>(FromHeap, 1000);
  Buffer buffer = *buffers->Take(10);

  buffers.reset();
  buffer.mutable_data()[9] = std::byte{1};
}

TEST(ReceiveBuffersTest, AllocatorsErrorIsReturned) {
  ReceiveBuffers buffers(
      [](size_t) -> absl::StatusOr<Buffer> {
        return absl::ResourceExhaustedError("no memory");
      },
      1000);

  EXPECT_THAT(buffers.Take(1), StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace pipestage
