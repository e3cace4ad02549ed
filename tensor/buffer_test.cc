#include "tensor/buffer.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

absl::string_view Text(const Buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}

TEST(BufferTest, AllocatedMemoryIsAlignedAndWritable) {
  for (size_t size : {1, 63, 64, 65, 4096}) {
    Buffer buffer = Buffer::Allocate(size);

    ASSERT_EQ(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0);
    buffer.mutable_data()[size - 1] = std::byte{7};
    EXPECT_EQ(buffer.data()[size - 1], std::byte{7});
  }
}

TEST(BufferTest, NothingIsAllocatedForNoBytes) {
  const Buffer buffer = Buffer::Allocate(0);

  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(buffer.owner(), nullptr);
}

TEST(BufferTest, StringGivesItsBytesWithoutACopy) {
  std::string bytes(1000, 'x');
  const void* where = bytes.data();

  const Buffer buffer = Buffer::FromString(std::move(bytes));

  EXPECT_EQ(buffer.data(), where);
  EXPECT_EQ(buffer.size(), 1000);
}

TEST(BufferTest, CopyStandsOnItsOwn) {
  char bytes[] = "abc";

  const Buffer buffer = Buffer::CopyOf(bytes, 3);
  bytes[0] = 'z';

  EXPECT_EQ(Text(buffer), "abc");
}

TEST(BufferTest, SliceKeepsTheWholeAlive) {
  auto owner = std::make_shared<std::string>("hello world");
  const std::weak_ptr<std::string> alive = owner;
  Buffer whole(owner, owner->data(), owner->size());
  owner.reset();

  Buffer slice = whole.Slice(6, 5);
  whole.Reset();

  EXPECT_EQ(Text(slice), "world");
  EXPECT_FALSE(alive.expired());
  slice.Reset();
  EXPECT_TRUE(alive.expired());
}

TEST(BufferTest, EmptySliceAtTheEndIsAllowed) {
  const Buffer whole = Buffer::FromString("abc");

  EXPECT_TRUE(whole.Slice(3, 0).empty());
  EXPECT_TRUE(Buffer().Slice(0, 0).empty());
}

TEST(BufferTest, AlignedSliceSharesWhereItCanAndCopiesWhereItMust) {
  const Buffer whole = Buffer::CopyOf("0123456789abcdef", 16);

  const Buffer shared = whole.AlignedSlice(8, 4, 8);
  const Buffer copied = whole.AlignedSlice(3, 4, 8);

  EXPECT_EQ(shared.data(), whole.data() + 8);
  EXPECT_EQ(Text(copied), "3456");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(copied.data()) % 8, 0);
}

TEST(BufferDeathTest, SliceBeyondTheEndIsOurBug) {
  const Buffer whole = Buffer::FromString("abc");

  EXPECT_DEATH(whole.Slice(2, 2), "");
  EXPECT_DEATH(whole.Slice(SIZE_MAX, 2), "");
}

}  // namespace
}  // namespace pipestage
