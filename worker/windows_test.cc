// The receive window and the send window, end to end over in-process ranks.

#include <atomic>
#include <thread>

#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/receive_window.h"
#include "worker/send_window.h"
#include "worker/testing/toy_stage.h"
#include "worker/transport/in_memory_rendezvous.h"
#include "worker/transport/inproc_communicator.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Rank kSender(0);
constexpr Rank kReceiver(1);

class WindowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::thread other([this] { communicators_[0] = Make(kSender); });
    communicators_[1] = Make(kReceiver);
    other.join();
    layout_ = std::make_shared<MessageLayout>();
    layout_->tensors = {{DType::kFloat64, {4}, 32}, {DType::kBool, {3}, 3}};
    layout_->payload_bytes = 35;
    layout_->digest = 99;
  }

  void TearDown() override {
    for (auto& communicator : communicators_) {
      communicator->Abort(absl::CancelledError("the test is over"));
    }
  }

  std::unique_ptr<Communicator> Make(Rank rank) {
    CommunicatorOptions options;
    options.rank = rank;
    options.size = 2;
    options.timeout = absl::Seconds(10);
    options.prefix = "windows";
    options.rendezvous = &rendezvous_;
    return *InprocCommunicator::Create(options);
  }

  MessageHeader Header(int microbatch) const {
    MessageHeader header;
    header.microbatch = MicrobatchIndex(microbatch);
    header.payload_bytes = layout_->payload_bytes;
    header.digest = layout_->digest;
    return header;
  }

  std::vector<StageTensor> Tensors(double first) const {
    return {MakeToyTensor(DType::kFloat64, {4}, {first, 2, 3, 4}),
            MakeToyTensor(DType::kBool, {3}, {1, 0, 1})};
  }

  ReceiveWindow::Ticket Expect(ReceiveWindow& window, int microbatch) {
    return *window.Expect(
        {kSender, Header(microbatch), layout_.get(), layout_});
  }

  ReceiveWindow MakeReceiveWindow(ReceiveWindow::Options options) {
    return ReceiveWindow(communicators_[1].get(), &buffers_, DeviceKind::kHost,
                         options);
  }

  InMemoryRendezvous rendezvous_;
  std::array<std::unique_ptr<Communicator>, 2> communicators_;
  ReceiveBuffers buffers_{[](size_t size) -> absl::StatusOr<Buffer> {
                            return Buffer::Allocate(size);
                          },
                          1 << 20};
  std::shared_ptr<MessageLayout> layout_;
};

TEST_F(WindowsTest, TensorsArriveAsTheyWereSent) {
  ReceiveWindow receives = MakeReceiveWindow({});
  SendWindow sends(communicators_[0].get(), {.checksum = true});
  const auto ticket = Expect(receives, 0);

  ASSERT_THAT(sends.Send(kReceiver, Header(0), Tensors(7)), IsOk());
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto received, receives.Take(ticket));

  EXPECT_FALSE(received.is_void);
  ASSERT_EQ(received.tensors.size(), 2);
  EXPECT_EQ(ToyElements(received.tensors[0]),
            (std::vector<double>{7, 2, 3, 4}));
  EXPECT_EQ(ToyElements(received.tensors[1]), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(received.tensors[1].data.data()) % 64,
            0);
}

TEST_F(WindowsTest, VoidMessageHasTheSameSizeAndNoTensors) {
  ReceiveWindow receives = MakeReceiveWindow({});
  SendWindow sends(communicators_[0].get(), {.checksum = true});
  const auto first = Expect(receives, 0);
  const auto second = Expect(receives, 1);
  const StageTensor filler = MakeToyTensor(DType::kFloat64, {4}, {0, 0, 0, 0});

  ASSERT_THAT(sends.SendVoid(kReceiver, Header(0), *layout_, filler), IsOk());
  ASSERT_THAT(sends.Send(kReceiver, Header(1), Tensors(8)), IsOk());

  EXPECT_TRUE(receives.Take(first)->is_void);
  EXPECT_EQ(ToyElements(receives.Take(second)->tensors[0])[0], 8);
}

TEST_F(WindowsTest, NoMoreIsPostedThanTheWindowAllows) {
  ReceiveWindow receives = MakeReceiveWindow({.max_messages = 2});
  SendWindow sends(communicators_[0].get(), {.max_messages = 100});
  std::vector<ReceiveWindow::Ticket> tickets;
  for (int m = 0; m < 20; ++m) tickets.push_back(Expect(receives, m));
  EXPECT_EQ(receives.posted(kSender), 2);

  for (int m = 0; m < 20; ++m) {
    ASSERT_THAT(sends.Send(kReceiver, Header(m), Tensors(m)), IsOk());
  }
  for (int m = 0; m < 20; ++m) {
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(auto received, receives.Take(tickets[m]));
    EXPECT_EQ(ToyElements(received.tensors[0])[0], m);
    EXPECT_LE(receives.posted(kSender), 2);
  }

  EXPECT_LE(buffers_.allocations(), 3);
}

TEST_F(WindowsTest, BytesBoundTheWindowButNeverBelowOneMessage) {
  ReceiveWindow receives =
      MakeReceiveWindow({.max_messages = 100, .max_bytes = 1});

  Expect(receives, 0);
  Expect(receives, 1);

  EXPECT_EQ(receives.posted(kSender), 1);
}

TEST_F(WindowsTest, MessagesMayBeTakenInAnotherOrderThanTheyCome) {
  ReceiveWindow receives = MakeReceiveWindow({.max_messages = 1});
  SendWindow sends(communicators_[0].get(), {});
  const auto first = Expect(receives, 0);
  const auto second = Expect(receives, 1);
  ASSERT_THAT(sends.Send(kReceiver, Header(0), Tensors(10)), IsOk());
  ASSERT_THAT(sends.Send(kReceiver, Header(1), Tensors(11)), IsOk());

  EXPECT_EQ(ToyElements(receives.Take(second)->tensors[0])[0], 11);
  EXPECT_EQ(ToyElements(receives.Take(first)->tensors[0])[0], 10);
}

TEST_F(WindowsTest, MessageOutOfStepIsNotUsed) {
  ReceiveWindow receives = MakeReceiveWindow({});
  SendWindow sends(communicators_[0].get(), {});
  const auto ticket = Expect(receives, 0);

  ASSERT_THAT(sends.Send(kReceiver, Header(3), Tensors(1)), IsOk());

  EXPECT_THAT(receives.Take(ticket),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("microbatch is 3"),
                             HasSubstr("the plan says 0"))));
}

TEST_F(WindowsTest, CorruptPayloadIsNoticedByItsChecksum) {
  ReceiveWindow receives = MakeReceiveWindow({});
  SendWindow sends(communicators_[0].get(), {.checksum = true});
  std::vector<StageTensor> tensors = Tensors(1);
  Buffer bytes = tensors[0].data;
  // Not posted yet: the message waits in the sender's memory.
  ASSERT_THAT(sends.Send(kReceiver, Header(0), std::move(tensors)), IsOk());
  bytes.mutable_data()[5] ^= std::byte{1};

  const auto ticket = Expect(receives, 0);

  EXPECT_THAT(receives.Take(ticket),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("CRC-32C")));
}

TEST_F(WindowsTest, TensorsLiveUntilTheirSendIsDone) {
  ReceiveWindow receives = MakeReceiveWindow({});
  SendWindow sends(communicators_[0].get(), {});
  std::vector<StageTensor> tensors = Tensors(5);
  const std::weak_ptr<const void> owner = tensors[0].data.owner();

  ASSERT_THAT(sends.Send(kReceiver, Header(0), std::move(tensors)), IsOk());
  EXPECT_FALSE(owner.expired());
  const auto ticket = Expect(receives, 0);
  EXPECT_EQ(ToyElements(receives.Take(ticket)->tensors[0])[0], 5);

  EXPECT_TRUE(owner.expired());
}

TEST_F(WindowsTest, SenderWaitsOnlyWhenItsWindowIsFull) {
  SendWindow sends(communicators_[0].get(), {.max_messages = 2});
  ReceiveWindow receives = MakeReceiveWindow({});
  ASSERT_THAT(sends.Send(kReceiver, Header(0), Tensors(0)), IsOk());
  ASSERT_THAT(sends.Send(kReceiver, Header(1), Tensors(1)), IsOk());
  EXPECT_EQ(sends.outstanding(kReceiver), 2);

  std::atomic<bool> sent = false;
  std::thread third([&] {
    EXPECT_THAT(sends.Send(kReceiver, Header(2), Tensors(2)), IsOk());
    sent = true;
  });
  EXPECT_FALSE(sent);  // can only be wrong in the direction that passes
  for (int m = 0; m < 3; ++m) {
    EXPECT_THAT(receives.Take(Expect(receives, m)), IsOk());
  }
  third.join();

  EXPECT_EQ(sends.outstanding(kReceiver), 2);
}

TEST_F(WindowsTest, SenderOfLargeMessagesHasTwoOfThemUnderWay) {
  SendWindow sends(communicators_[0].get(), {.max_bytes = 1});
  ReceiveWindow receives = MakeReceiveWindow({});
  ASSERT_THAT(sends.Send(kReceiver, Header(0), Tensors(0)), IsOk());
  ASSERT_THAT(sends.Send(kReceiver, Header(1), Tensors(1)), IsOk());
  EXPECT_EQ(sends.outstanding(kReceiver), 2);
  for (int m = 0; m < 2; ++m) {
    EXPECT_THAT(receives.Take(Expect(receives, m)), IsOk());
  }

  ASSERT_THAT(sends.Send(kReceiver, Header(2), Tensors(2)), IsOk());

  EXPECT_EQ(sends.outstanding(kReceiver), 2);
  EXPECT_THAT(receives.Take(Expect(receives, 2)), IsOk());
}

}  // namespace
}  // namespace pipestage
