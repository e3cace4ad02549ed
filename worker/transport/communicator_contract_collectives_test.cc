// The part of the communicator contract that is about collectives.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/transport/communicator_contract_test.h"
#include "worker/transport/contract_exchange.h"

namespace pipestage {
namespace {

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

}  // namespace
}  // namespace pipestage
