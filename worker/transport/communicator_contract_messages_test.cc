// The part of the communicator contract that is about messages.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/transport/communicator_contract_test.h"
#include "worker/transport/contract_exchange.h"

namespace pipestage {
namespace {

TEST_P(CommunicatorContractTest, MessagesOfAPairArriveInOrder) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);
  constexpr uint32_t kMessages = 1000;
  std::vector<uint32_t> received(kMessages);

  OnAllRanks(group, [&](Communicator& self) {
    std::vector<uint32_t> numbers(kMessages);
    std::iota(numbers.begin(), numbers.end(), 0);
    Operations operations;
    for (uint32_t i = 0; i < kMessages; ++i) {
      auto operation =
          self.rank() == Rank(0)
              ? self.Send(Rank(1), {ConstPart{&numbers[i], 4}}, nullptr)
              : self.Receive(Rank(0), {MutablePart{&received[i], 4}}, nullptr);
      ASSERT_THAT(operation, IsOk());
      operations.push_back(*std::move(operation));
    }
    EXPECT_THAT(WaitAll(operations), IsOk());
  });

  for (uint32_t i = 0; i < kMessages; ++i) ASSERT_EQ(received[i], i);
}

TEST_P(CommunicatorContractTest, AnyNumberOfPartsOfAnySizeArrivesWhole) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);
  const std::vector<std::vector<size_t>> messages = {
      {},
      {0},
      {0, 0, 0},
      {1},
      {64},
      {64, 0},
      {64, 64},
      {0, 64, 0, 100, 0},
      {64, 64 * kKiB - 65},
      {64, 64 * kKiB - 64},
      {64, 64 * kKiB - 63},
      {64 * kKiB},
      {64 * kKiB + 1},
      {64, 64 * kKiB, 0, 3},
      {64, kMiB, 17, kMiB + 1},
      {64, 32 * kMiB},
      {5, 7, 11, 13, 17, 19, 23, 29},
  };

  OnAllRanks(group, [&](Communicator& self) {
    for (size_t m = 0; m < messages.size(); ++m) {
      std::vector<Bytes> expected;
      for (size_t size : messages[m]) {
        expected.push_back(Pattern(size, m * 100 + expected.size()));
      }
      if (self.rank() == Rank(0)) {
        std::vector<ConstPart> parts;
        for (const Bytes& part : expected) parts.push_back(PartOf(part));
        auto send = self.Send(Rank(1), parts, nullptr);
        ASSERT_THAT(send, IsOk());
        ASSERT_THAT((*send)->Wait(), IsOk());
      } else {
        std::vector<Bytes> received;
        for (size_t size : messages[m]) received.emplace_back(size, 0xee);
        std::vector<MutablePart> parts;
        for (Bytes& part : received) parts.push_back(PartOf(part));
        auto receive = self.Receive(Rank(0), parts, nullptr);
        ASSERT_THAT(receive, IsOk());
        ASSERT_THAT((*receive)->Wait(), IsOk());
        EXPECT_TRUE(received == expected) << "message " << m;
      }
    }
  });
}

TEST_P(CommunicatorContractTest, ReceivesPostedAheadTakeTheSendsInOrder) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);
  constexpr int kMessages = 64;
  absl::Notification posted;

  OnAllRanks(group, [&](Communicator& self) {
    Operations operations;
    std::vector<Bytes> buffers;
    for (int i = 0; i < kMessages; ++i) {
      buffers.push_back(Pattern(1000 + i * 3000, i));
    }
    if (self.rank() == Rank(0)) {
      posted.WaitForNotification();
      for (const Bytes& bytes : buffers) {
        StartSend(self, Rank(1), bytes, operations);
      }
      EXPECT_THAT(WaitAll(operations), IsOk());
    } else {
      std::vector<Bytes> received;
      for (const Bytes& bytes : buffers) received.emplace_back(bytes.size());
      for (Bytes& bytes : received) {
        StartReceive(self, Rank(0), bytes, operations);
      }
      posted.Notify();
      EXPECT_THAT(WaitAll(operations), IsOk());
      EXPECT_TRUE(received == buffers);
    }
  });
}

TEST_P(CommunicatorContractTest, OperationsMayBeWaitedForInAnyOrder) {
  PIPESTAGE_NEEDS_RANKS(3);
  Communicators group = Form(3);
  constexpr int kMessages = 10;

  OnAllRanks(group, [&](Communicator& self) {
    Operations operations;
    std::vector<Bytes> sent, received(2 * kMessages, Bytes(5000));
    for (int i = 0; i < kMessages; ++i) {
      sent.push_back(Pattern(5000, self.rank().value() * 100 + i));
    }
    for (int i = 0; i < kMessages; ++i) {
      if (self.rank() == Rank(0)) {
        StartReceive(self, Rank(1), received[2 * i], operations);
        StartReceive(self, Rank(2), received[2 * i + 1], operations);
      } else {
        StartSend(self, Rank(0), sent[i], operations);
      }
    }
    std::reverse(operations.begin(), operations.end());
    EXPECT_THAT(WaitAll(operations), IsOk());
    for (int i = 0; self.rank() == Rank(0) && i < 2 * kMessages; ++i) {
      EXPECT_TRUE(received[i] == Pattern(5000, (1 + i % 2) * 100 + i / 2));
    }
  });
}

TEST_P(CommunicatorContractTest, SendsProceedBeforeEarlierOnesAreWaitedFor) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);
  constexpr int kMessages = 64;

  OnAllRanks(group, [&](Communicator& self) {
    std::vector<Bytes> buffers;
    for (int i = 0; i < kMessages; ++i) buffers.push_back(Pattern(100'000, i));
    Operations sends;
    for (int i = 0; i < kMessages; ++i) {
      if (self.rank() == Rank(0)) {
        StartSend(self, Rank(1), buffers[i], sends);
      } else {
        Bytes received(100'000);
        ASSERT_THAT(ReceiveNow(self, Rank(0), received), IsOk());
        EXPECT_TRUE(received == buffers[i]) << "message " << i;
      }
    }
    EXPECT_THAT(WaitAll(sends), IsOk());
  });
}

TEST_P(CommunicatorContractTest, ASendArrivesThoughItsSenderDoesNothingMore) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);
  ASSERT_NE(group[0], nullptr);
  ASSERT_NE(group[1], nullptr);
  const Bytes sent = Pattern(32 * kMiB, 1);
  Bytes received(sent.size());
  Operations sends;

  StartSend(*group[0], Rank(1), sent, sends);
  ASSERT_THAT(ReceiveNow(*group[1], Rank(0), received), IsOk());

  EXPECT_TRUE(received == sent);
  EXPECT_THAT(WaitAll(sends), IsOk());
}

TEST_P(CommunicatorContractTest, LargeMessagesThatCrossDoNotDeadlock) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);
  constexpr int kMessages = 4;
  constexpr size_t kSize = 8 * kMiB;

  OnAllRanks(group, [&](Communicator& self) {
    const Rank peer(1 - self.rank().value());
    Operations sends;
    std::vector<Bytes> sent, received(kMessages, Bytes(kSize));
    for (int i = 0; i < kMessages; ++i) {
      sent.push_back(Pattern(kSize, self.rank().value() * 10 + i));
    }
    for (const Bytes& bytes : sent) StartSend(self, peer, bytes, sends);
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_THAT(ReceiveNow(self, peer, received[i]), IsOk());
      EXPECT_TRUE(received[i] == Pattern(kSize, peer.value() * 10 + i));
    }
    EXPECT_THAT(WaitAll(sends), IsOk());
  });
}

TEST_P(CommunicatorContractTest, SendsThatCrossMayBeWaitedForBeforeReceives) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);

  OnAllRanks(group, [&](Communicator& self) {
    const Rank peer(1 - self.rank().value());
    for (int round = 0; round < 20; ++round) {
      const Bytes sent = Pattern(kMiB, self.rank().value());
      Bytes received(kMiB);
      Operations operations;
      StartSend(self, peer, sent, operations);
      StartReceive(self, peer, received, operations);
      ASSERT_THAT(WaitAll(operations), IsOk());
      EXPECT_TRUE(received == Pattern(kMiB, peer.value()));
    }
  });
}

TEST_P(CommunicatorContractTest, FourRanksAllToAllNeverMixPeers) {
  PIPESTAGE_NEEDS_RANKS(4);
  Communicators group = Form(4);
  constexpr int kRounds = 25;
  const auto size = [](int from, int to, int round) -> size_t {
    return round % 5 == 0 ? 200'000 + from : 100 * from + 10 * to + round;
  };

  OnAllRanks(group, [&](Communicator& self) {
    const int me = self.rank().value();
    for (int round = 0; round < kRounds; ++round) {
      Operations operations;
      std::vector<Bytes> sent(4), received(4);
      for (int peer = 0; peer < 4; ++peer) {
        if (peer == me) continue;
        received[peer].resize(size(peer, me, round));
        StartReceive(self, Rank(peer), received[peer], operations);
      }
      for (int peer = 0; peer < 4; ++peer) {
        if (peer == me) continue;
        sent[peer] = Pattern(size(me, peer, round), me * 1000 + peer);
        StartSend(self, Rank(peer), sent[peer], operations);
      }
      ASSERT_THAT(WaitAll(operations), IsOk());
      for (int peer = 0; peer < 4; ++peer) {
        if (peer == me) continue;
        EXPECT_TRUE(received[peer] ==
                    Pattern(size(peer, me, round), peer * 1000 + me))
            << peer << " to " << me << ", round " << round;
      }
    }
  });
}

TEST_P(CommunicatorContractTest, KeepalivesAreReleasedWhenOperationsAreDone) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);

  for (size_t size : {size_t{100}, size_t{200'000}}) {
    OnAllRanks(group, [&](Communicator& self) {
      auto bytes = std::make_shared<Bytes>(size);
      const std::weak_ptr<Bytes> watch = bytes;
      Bytes header(64);
      auto operation =
          self.rank() == Rank(0)
              ? self.Send(Rank(1),
                          {PartOf(std::as_const(header)),
                           PartOf(std::as_const(*bytes))},
                          bytes)
              : self.Receive(Rank(0), {PartOf(header), PartOf(*bytes)}, bytes);
      ASSERT_THAT(operation, IsOk());
      bytes.reset();
      ASSERT_THAT((*operation)->Wait(), IsOk());

      EXPECT_TRUE(watch.expired()) << "rank " << self.rank();
    });
  }
}

TEST_P(CommunicatorContractTest, WrongPeersAreRefused) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);
  ASSERT_NE(group[0], nullptr);
  Bytes bytes(4);

  for (int peer : {-1, 0, 2}) {
    EXPECT_THAT(SendNow(*group[0], Rank(peer), bytes),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(ReceiveNow(*group[0], Rank(peer), bytes),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace pipestage
