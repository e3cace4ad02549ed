#include "coordinator/feed_encoding.h"

#include <string>

#include "grpcpp/impl/codegen/proto_utils.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

FeedMessage MessageOf(std::string data) {
  FeedMessage message;
  message.header.set_call_id(7);
  message.header.set_argument(2);
  message.header.set_first_microbatch(3);
  message.header.set_num_microbatches(4);
  message.data = Buffer::FromString(std::move(data));
  return message;
}

class FeedEncodingTest : public ::testing::TestWithParam<size_t> {};

TEST_P(FeedEncodingTest, IsReadAsTheMessageItStandsFor) {
  const std::string data(GetParam(), 'x');

  grpc::ByteBuffer encoded = EncodeFeed(MessageOf(data));

  v1::CoordinatorMessage message;
  ASSERT_TRUE(grpc::SerializationTraits<v1::CoordinatorMessage>::Deserialize(
                  &encoded, &message)
                  .ok());
  ASSERT_TRUE(message.has_feed());
  EXPECT_EQ(message.feed().call_id(), 7);
  EXPECT_EQ(message.feed().argument(), 2);
  EXPECT_EQ(message.feed().first_microbatch(), 3);
  EXPECT_EQ(message.feed().num_microbatches(), 4);
  EXPECT_EQ(message.feed().data(), data);
}

INSTANTIATE_TEST_SUITE_P(Sizes, FeedEncodingTest,
                         ::testing::Values(0, 1, 127, 4095, 4096, 1 << 20));

TEST(FeedEncodingTest, LargeDataIsKeptAliveUntilItIsSent) {
  auto owner = std::make_shared<std::string>(8192, 'y');
  FeedMessage message;
  message.data = Buffer(owner, owner->data(), owner->size());
  std::weak_ptr<std::string> watched = owner;

  {
    const grpc::ByteBuffer encoded = EncodeFeed(std::move(message));
    owner.reset();
    EXPECT_FALSE(watched.expired());
  }

  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace pipestage
