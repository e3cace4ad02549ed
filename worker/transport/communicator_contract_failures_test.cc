// The part of the communicator contract that is about aborts, timeouts and lost
// peers.

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/transport/communicator_contract_test.h"
#include "worker/transport/contract_exchange.h"

namespace pipestage {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST_P(CommunicatorContractTest, AbortWakesAPendingReceiveWithItsReason) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);
  ASSERT_NE(group[0], nullptr);
  Bytes bytes(16);

  const Interrupted result = InterruptWith(
      [&] { return ReceiveNow(*group[0], Rank(1), bytes); },
      [&] { group[0]->Abort(absl::AbortedError("generation 7 is over")); });

  EXPECT_THAT(result.status,
              StatusIs(absl::StatusCode::kAborted, "generation 7 is over"));
  EXPECT_LT(result.after, absl::Seconds(1));
}

TEST_P(CommunicatorContractTest, AbortWakesAPendingSendWithItsReason) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);
  ASSERT_NE(group[0], nullptr);
  // More than any socket holds, so that it cannot leave unreceived.
  const Bytes bytes(64 * kMiB);

  const Interrupted result = InterruptWith(
      [&] { return SendNow(*group[0], Rank(1), bytes); },
      [&] { group[0]->Abort(absl::AbortedError("generation 7 is over")); });

  EXPECT_THAT(result.status,
              StatusIs(absl::StatusCode::kAborted, "generation 7 is over"));
  EXPECT_LT(result.after, absl::Seconds(1));
}

TEST_P(CommunicatorContractTest, AbortWakesACollective) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);
  ASSERT_NE(group[0], nullptr);
  float sum = 1;

  const Interrupted result = InterruptWith(
      [&] {
        return group[0]->AllReduceSum({&sum, sizeof(sum)}, DType::kFloat32);
      },
      [&] { group[0]->Abort(absl::AbortedError("enough")); });

  EXPECT_THAT(result.status, StatusIs(absl::StatusCode::kAborted, "enough"));
  EXPECT_LT(result.after, absl::Seconds(1));
}

TEST_P(CommunicatorContractTest, AfterAbortEverythingReturnsTheFirstReason) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);
  ASSERT_NE(group[0], nullptr);
  Bytes before(8), bytes(8);
  float sum = 1;
  Operations posted;
  StartReceive(*group[0], Rank(1), before, posted);

  group[0]->Abort(absl::AbortedError("first"));
  group[0]->Abort(absl::InternalError("second"));

  const auto is_first = StatusIs(absl::StatusCode::kAborted, "first");
  EXPECT_THAT(WaitAll(posted), is_first);
  EXPECT_THAT(SendNow(*group[0], Rank(1), bytes), is_first);
  EXPECT_THAT(ReceiveNow(*group[0], Rank(1), bytes), is_first);
  EXPECT_THAT(group[0]->AllReduceSum({&sum, 4}, DType::kFloat32), is_first);
}

TEST_P(CommunicatorContractTest, OperationsMayBeDroppedAfterAbort) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);
  ASSERT_NE(group[0], nullptr);
  std::vector<Bytes> buffers(16, Bytes(100'000));
  Operations operations;
  for (int i = 0; i < 16; i += 2) {
    StartReceive(*group[0], Rank(1), buffers[i], operations);
    StartSend(*group[0], Rank(1), buffers[i + 1], operations);
  }

  group[0]->Abort(absl::AbortedError("over"));
  operations.clear();
  group[0].reset();
}

TEST_P(CommunicatorContractTest, OperationsMayOutliveTheirCommunicator) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);
  ASSERT_NE(group[0], nullptr);
  Bytes in(100'000), out(100'000);
  Operations operations;
  StartReceive(*group[0], Rank(1), in, operations);
  StartSend(*group[0], Rank(1), out, operations);

  group[0].reset();

  EXPECT_THAT(operations[0]->Wait(), StatusIs(absl::StatusCode::kCancelled));
}

TEST_P(CommunicatorContractTest, AbortInTheMiddleOfTrafficIsClean) {
  PIPESTAGE_NEEDS_RANKS(2);
  PIPESTAGE_NEEDS_LOSS_DETECTION();
  for (int round = 0; round < 10; ++round) {
    Communicators group = Form(2);
    std::atomic<int> exchanged = 0;
    absl::Notification under_way;
    std::thread aborter([&] {
      under_way.WaitForNotification();
      group[round % 2]->Abort(absl::AbortedError("stop"));
    });
    OnAllRanks(group, [&](Communicator& self) {
      const Rank peer(1 - self.rank().value());
      Bytes sent(50'000 << (round % 4)), received(sent.size());
      absl::Status status;
      while (status.ok()) {
        auto receive = self.Receive(peer, {PartOf(received)}, nullptr);
        auto send = self.Send(peer, {PartOf(std::as_const(sent))}, nullptr);
        status.Update(receive.ok() ? (*receive)->Wait() : receive.status());
        status.Update(send.ok() ? (*send)->Wait() : send.status());
        if (++exchanged == 20) under_way.Notify();
      }
      EXPECT_THAT(status, IsPeerLoss());
    });
    aborter.join();
  }
}

// Memory that an operation keeps alive; marked when it is let go of.
struct Lent {
  static constexpr uint8_t kFree = 0xAB;

  explicit Lent(size_t size) : bytes(size) {}
  std::shared_ptr<const void> Keepalive() {
    return std::shared_ptr<const void>(this, [](const void* lent) {
      Bytes& bytes = const_cast<Lent*>(static_cast<const Lent*>(lent))->bytes;
      std::fill(bytes.begin(), bytes.end(), kFree);
    });
  }
  bool IsFreeAndUntouched() const {
    return absl::c_all_of(bytes, [](uint8_t byte) { return byte == kFree; });
  }

  Bytes bytes;
};

TEST_P(CommunicatorContractTest, NothingIsWrittenToMemoryThatWasLetGoOf) {
  PIPESTAGE_NEEDS_RANKS(2);
  constexpr int kMessages = 24;
  for (int round = 0; round < 20; ++round) {
    Communicators group = Form(2);
    ASSERT_NE(group[0], nullptr);
    std::vector<Lent> lent(kMessages, Lent(kMiB));
    const Bytes sent = Pattern(kMiB, 7);
    absl::Notification under_way;
    std::thread aborter([&] {
      under_way.WaitForNotification();
      group[0]->Abort(absl::AbortedError("over"));
    });
    std::thread sender([&] {
      Operations sends;
      for (int i = 0; i < kMessages; ++i) {
        auto send = group[1]->Send(Rank(0), {PartOf(sent)}, nullptr);
        if (send.ok()) sends.push_back(*std::move(send));
      }
      (void)WaitAll(sends);
    });

    Operations receives;
    for (Lent& memory : lent) {
      auto receive = group[0]->Receive(Rank(1), {PartOf(memory.bytes)},
                                       memory.Keepalive());
      if (receive.ok()) receives.push_back(*std::move(receive));
    }
    absl::Status status;
    for (int i = 0; i < std::ssize(receives) && status.ok(); ++i) {
      if (i == round % 5) under_way.Notify();
      status = receives[i]->Wait();
    }
    receives.clear();
    aborter.join();
    group[1]->Abort(absl::AbortedError("over"));
    sender.join();
    group[0].reset();
    EXPECT_TRUE(absl::c_all_of(
        lent, [](const Lent& memory) { return memory.IsFreeAndUntouched(); }))
        << "in round " << round;
  }
}

TEST_P(CommunicatorContractTest, ALostPeerEndsItsPendingReceives) {
  PIPESTAGE_NEEDS_RANKS(3);
  PIPESTAGE_NEEDS_LOSS_DETECTION();
  Communicators group = Form(3);
  ASSERT_NE(group[0], nullptr);
  Bytes bytes(16);

  const Interrupted result =
      InterruptWith([&] { return ReceiveNow(*group[0], Rank(2), bytes); },
                    [&] { group[2].reset(); });

  EXPECT_THAT(result.status, IsPeerLoss());
  EXPECT_THAT(result.status.message(), HasSubstr("rank 2"));
  EXPECT_LT(result.after, absl::Seconds(2));
}

TEST_P(CommunicatorContractTest, ALostPeerEndsLaterOperations) {
  PIPESTAGE_NEEDS_RANKS(2);
  PIPESTAGE_NEEDS_LOSS_DETECTION();
  Communicators group = Form(2);
  ASSERT_NE(group[0], nullptr);
  Bytes bytes(16);

  group[1].reset();
  const absl::Time begin = absl::Now();

  EXPECT_THAT(ReceiveNow(*group[0], Rank(1), bytes), IsPeerLoss());
  EXPECT_THAT(SendNow(*group[0], Rank(1), bytes), IsPeerLoss());
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
}

TEST_P(CommunicatorContractTest, APeerLostWithinAMessageEndsItsReceive) {
  PIPESTAGE_NEEDS_RANKS(2);
  PIPESTAGE_NEEDS_LOSS_DETECTION();
  if (!GetParam().notices_loss_within_a_message) {
    GTEST_SKIP() << GetParam().name
                 << " does not notice a peer lost within a message; the "
                    "coordinator does, and aborts (docs/gotchas.md)";
  }
  for (int round = 0; round < 3; ++round) {
    Communicators group = Form(2, /*timeout=*/absl::Seconds(20));
    ASSERT_NE(group[1], nullptr);
    const Bytes sent(32 * kMiB);
    Bytes received(sent.size());
    Operations receives, sends;
    StartReceive(*group[0], Rank(1), received, receives);
    StartSend(*group[1], Rank(0), sent, sends);
    const absl::Time lost = absl::Now();
    std::thread peer([&] { group[1].reset(); });
    const absl::Status status = WaitAll(receives);
    peer.join();

    // It may all have left in time.
    EXPECT_THAT(status, AnyOf(IsOk(), IsPeerLoss()));
    EXPECT_LT(absl::Now() - lost, absl::Seconds(2));
  }
}

TEST_P(CommunicatorContractTest, APeerThatAbortsEndsOurCollective) {
  PIPESTAGE_NEEDS_RANKS(2);
  PIPESTAGE_NEEDS_LOSS_DETECTION();
  Communicators group = Form(2);
  ASSERT_NE(group[0], nullptr);
  float sum = 1;

  const Interrupted result = InterruptWith(
      [&] {
        return group[0]->AllReduceSum({&sum, 4}, DType::kFloat32);
      },
      [&] { group[1]->Abort(absl::AbortedError("rank 1 gave up")); });

  EXPECT_THAT(result.status, IsPeerLoss());
  EXPECT_LT(result.after, absl::Seconds(2));
}

TEST_P(CommunicatorContractTest, AnOperationNotDoneInTimeEndsTheCommunicator) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2, absl::Seconds(0.5));
  ASSERT_NE(group[0], nullptr);
  Bytes bytes(16);
  const absl::Time begin = absl::Now();

  EXPECT_THAT(
      ReceiveNow(*group[0], Rank(1), bytes),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("rank 1")));
  EXPECT_GE(absl::Now() - begin, absl::Seconds(0.4));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(3));

  EXPECT_THAT(SendNow(*group[0], Rank(1), bytes),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

}  // namespace
}  // namespace pipestage
