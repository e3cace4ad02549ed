#include "worker/transport/communicator_contract_test.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"

namespace pipestage {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

using Bytes = std::vector<uint8_t>;
using Operations = std::vector<std::unique_ptr<Operation>>;

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

// Bytes that tell which message they are of, and where in it.
Bytes Pattern(size_t size, uint32_t seed) {
  Bytes bytes(size);
  uint32_t state = seed * 2654435761u + 1;
  for (uint8_t& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = state >> 24;
  }
  return bytes;
}

ConstPart PartOf(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }
MutablePart PartOf(Bytes& bytes) { return {bytes.data(), bytes.size()}; }

absl::Status WaitAll(Operations& operations) {
  absl::Status first;
  for (auto& operation : operations) first.Update(operation->Wait());
  operations.clear();
  return first;
}

// Start and wait in one, whichever of the two reports the error.
absl::Status SendNow(Communicator& self, Rank to, const Bytes& bytes) {
  auto operation = self.Send(to, {PartOf(bytes)}, nullptr);
  return operation.ok() ? (*operation)->Wait() : operation.status();
}
absl::Status ReceiveNow(Communicator& self, Rank from, Bytes& bytes) {
  auto operation = self.Receive(from, {PartOf(bytes)}, nullptr);
  return operation.ok() ? (*operation)->Wait() : operation.status();
}

void StartSend(Communicator& self, Rank to, const Bytes& bytes,
               Operations& operations) {
  auto operation = self.Send(to, {PartOf(bytes)}, nullptr);
  ASSERT_THAT(operation, IsOk());
  operations.push_back(*std::move(operation));
}
void StartReceive(Communicator& self, Rank from, Bytes& bytes,
                  Operations& operations) {
  auto operation = self.Receive(from, {PartOf(bytes)}, nullptr);
  ASSERT_THAT(operation, IsOk());
  operations.push_back(*std::move(operation));
}

pid_t ThisThread() { return syscall(SYS_gettid); }

// Returns when the kernel has put the thread to sleep, that is, when it waits.
void AwaitAsleep(pid_t thread) {
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (absl::Now() < deadline) {
    std::ifstream file(absl::StrCat("/proc/self/task/", thread, "/stat"));
    std::string line;
    std::getline(file, line);
    const size_t name_end = line.rfind(')');
    if (name_end != std::string::npos && line[name_end + 2] == 'S') return;
    std::this_thread::yield();
  }
  ADD_FAILURE() << "thread " << thread << " never slept";
}

// Runs `blocking` in a thread and, once that waits, `then` in this one. Returns
// what `blocking` returned and how long after `then` began it did.
struct Interrupted {
  absl::Status status;
  absl::Duration after;
};
Interrupted InterruptWith(const std::function<absl::Status()>& blocking,
                          const std::function<void()>& then) {
  absl::Notification started;
  pid_t id = 0;
  Interrupted result;
  absl::Time end;
  std::thread thread([&] {
    id = ThisThread();
    started.Notify();
    result.status = blocking();
    end = absl::Now();
  });
  started.WaitForNotification();
  AwaitAsleep(id);
  const absl::Time begin = absl::Now();
  then();
  thread.join();
  result.after = end - begin;
  return result;
}

auto IsPeerLoss() {
  return AnyOf(StatusIs(absl::StatusCode::kUnavailable),
               StatusIs(absl::StatusCode::kAborted));
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const ContractBackend& backend) {
  return os << backend.name;
}

std::string BackendName(const ::testing::TestParamInfo<ContractBackend>& info) {
  return info.param.name;
}

CommunicatorContractTest::Communicators CommunicatorContractTest::Form(
    int size, absl::Duration timeout) {
  Communicators group(size);
  std::vector<std::thread> threads;
  ++generation_;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      CommunicatorOptions options;
      options.rank = Rank(rank);
      options.size = size;
      options.generation = Generation(generation_);
      options.timeout = timeout;
      options.prefix = absl::StrCat("generation-", generation_);
      options.rendezvous = &rendezvous_;
      auto communicator = GetParam().create(options);
      EXPECT_THAT(communicator, IsOk()) << "rank " << rank;
      if (communicator.ok()) group[rank] = *std::move(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return group;
}

void CommunicatorContractTest::OnAllRanks(
    Communicators& group, const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (auto& communicator : group) {
    ASSERT_NE(communicator, nullptr);
    threads.emplace_back([&body, &communicator] { body(*communicator); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(CommunicatorContractTest, KnowsWhoItIs) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);

  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_NE(group[rank], nullptr);
    EXPECT_EQ(group[rank]->rank(), Rank(rank));
    EXPECT_EQ(group[rank]->size(), 2);
    EXPECT_EQ(group[rank]->backend(), GetParam().name);
  }
}

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

template <typename T>
void CheckSums(Communicator& self, DType dtype,
               const std::function<T(int64_t)>& encode) {
  const int n = self.size(), me = self.rank().value();
  const int64_t ranks_sum = n * (n - 1) / 2;
  for (size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}}) {
    std::vector<T> data(count);
    for (size_t i = 0; i < count; ++i) data[i] = encode(me + i % 8);
    ASSERT_THAT(self.AllReduceSum({data.data(), count * sizeof(T)}, dtype),
                IsOk());
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(data[i], encode(ranks_sum + n * (i % 8))) << i;
    }

    std::vector<T> in(count * n), out(count);
    for (size_t i = 0; i < in.size(); ++i) in[i] = encode(me + i % 8);
    ASSERT_THAT(self.ReduceScatterSum({in.data(), in.size() * sizeof(T)},
                                      {out.data(), count * sizeof(T)}, dtype),
                IsOk());
    for (size_t i = 0; i < count; ++i) {
      const int64_t at = (me * count + i) % 8;
      ASSERT_EQ(out[i], encode(ranks_sum + n * at)) << i;
    }
  }
}

TEST_P(CommunicatorContractTest, SumsOfEachDTypeAreTheSameOnAllRanks) {
  for (int size : {1, 2, 3}) {
    if (GetParam().max_size < size) continue;
    Communicators group = Form(size);
    OnAllRanks(group, [](Communicator& self) {
      CheckSums<float>(self, DType::kFloat32, [](int64_t x) { return x; });
      CheckSums<double>(self, DType::kFloat64, [](int64_t x) { return x; });
      CheckSums<int64_t>(self, DType::kInt64, [](int64_t x) { return x; });
      CheckSums<int32_t>(self, DType::kInt32, [](int64_t x) { return x; });
      // Whole numbers up to 256: exact in bfloat16.
      CheckSums<uint16_t>(self, DType::kBFloat16, [](int64_t x) {
        const float value = x;
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof(bits));
        return bits >> 16;
      });
    });
  }
  if (GetParam().max_size < 1) GTEST_SKIP() << GetParam().limit_reason;
}

TEST_P(CommunicatorContractTest, AllGatherPutsEveryRankInItsPlace) {
  if (GetParam().max_size < 1) GTEST_SKIP() << GetParam().limit_reason;
  const int size = std::min(GetParam().max_size, 3);
  Communicators group = Form(size);

  OnAllRanks(group, [&](Communicator& self) {
    for (size_t bytes : {size_t{0}, size_t{1}, size_t{100}, 300 * kKiB}) {
      const Bytes in = Pattern(bytes, self.rank().value());
      Bytes out(bytes * size);
      ASSERT_THAT(self.AllGather(PartOf(in), PartOf(out)), IsOk());
      for (int rank = 0; rank < size; ++rank) {
        EXPECT_TRUE(std::ranges::equal(
            Pattern(bytes, rank),
            absl::MakeSpan(out).subspan(rank * bytes, bytes)));
      }
    }
  });
}

TEST_P(CommunicatorContractTest, CollectivesRefuseSizesThatDoNotFit) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);
  ASSERT_NE(group[0], nullptr);
  Bytes a(6), b(6);

  EXPECT_THAT(group[0]->AllReduceSum(PartOf(a), DType::kFloat32),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(group[0]->AllReduceSum(PartOf(a), DType::kBool),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(group[0]->AllGather(PartOf(std::as_const(a)), PartOf(b)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(group[0]->ReduceScatterSum(PartOf(std::as_const(a)), PartOf(b),
                                         DType::kUint8),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_P(CommunicatorContractTest, CollectivesDoNotTakeMessagesPostedAhead) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators group = Form(2);

  OnAllRanks(group, [&](Communicator& self) {
    Bytes message(4);
    Operations operations;
    if (self.rank() == Rank(0)) {
      StartReceive(self, Rank(1), message, operations);
    }
    float sum = 1.5f;
    ASSERT_THAT(self.AllReduceSum({&sum, sizeof(sum)}, DType::kFloat32),
                IsOk());
    EXPECT_EQ(sum, 3.0f);
    if (self.rank() == Rank(1)) {
      ASSERT_THAT(SendNow(self, Rank(0), Pattern(4, 1)), IsOk());
    } else {
      ASSERT_THAT(WaitAll(operations), IsOk());
      EXPECT_EQ(message, Pattern(4, 1));
    }
  });
}

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

TEST_P(CommunicatorContractTest, ALostPeerEndsItsPendingReceives) {
  PIPESTAGE_NEEDS_RANKS(3);
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
  Communicators group = Form(2);
  ASSERT_NE(group[0], nullptr);
  Bytes bytes(16);

  group[1].reset();
  const absl::Time begin = absl::Now();

  EXPECT_THAT(ReceiveNow(*group[0], Rank(1), bytes), IsPeerLoss());
  EXPECT_THAT(SendNow(*group[0], Rank(1), bytes), IsPeerLoss());
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
}

TEST_P(CommunicatorContractTest, APeerThatAbortsEndsOurCollective) {
  PIPESTAGE_NEEDS_RANKS(2);
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

TEST_P(CommunicatorContractTest, ANewGenerationWorksAfterAFailedOne) {
  PIPESTAGE_NEEDS_RANKS(2);
  Communicators old = Form(2);
  Bytes lost(16);
  Operations pending;
  StartReceive(*old[1], Rank(0), lost, pending);
  old[0]->Abort(absl::AbortedError("failed"));
  EXPECT_THAT(WaitAll(pending), IsPeerLoss());

  Communicators group = Form(2);  // while the old one still stands
  old.clear();

  OnAllRanks(group, [](Communicator& self) {
    if (self.rank() == Rank(0)) {
      EXPECT_THAT(SendNow(self, Rank(1), Pattern(1000, 5)), IsOk());
    } else {
      Bytes received(1000);
      EXPECT_THAT(ReceiveNow(self, Rank(0), received), IsOk());
      EXPECT_EQ(received, Pattern(1000, 5));
    }
  });
}

TEST_P(CommunicatorContractTest, ThreeGenerationsFormQuickly) {
  PIPESTAGE_NEEDS_RANKS(2);
  const absl::Time begin = absl::Now();

  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Form(2), Each(::testing::Ne(nullptr)));
  }

  EXPECT_LT(absl::Now() - begin, GetParam().forming_limit);
}

TEST_P(CommunicatorContractTest, FormingEndsWhenAPeerDoesNotCome) {
  PIPESTAGE_NEEDS_RANKS(2);
  for (int rank : {0, 1}) {
    CommunicatorOptions options;
    options.rank = Rank(rank);
    options.size = 2;
    options.timeout = absl::Seconds(0.3);
    options.prefix = absl::StrCat("alone-", rank);
    options.rendezvous = &rendezvous_;
    const absl::Time begin = absl::Now();

    EXPECT_THAT(GetParam().create(options),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_LT(absl::Now() - begin, absl::Seconds(3));
  }
}

TEST_P(CommunicatorContractTest, OptionsThatFormNoGroupAreRefused) {
  CommunicatorOptions good;
  good.size = 1;
  good.prefix = "p";
  good.rendezvous = &rendezvous_;
  std::vector<CommunicatorOptions> bad(5, good);
  bad[0].rank = Rank(1);
  bad[1].prefix = "";
  bad[2].rendezvous = nullptr;
  bad[3].timeout = absl::ZeroDuration();
  bad[4].host = "0.0.0.0";

  for (const CommunicatorOptions& options : bad) {
    EXPECT_THAT(GetParam().create(options),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace pipestage
