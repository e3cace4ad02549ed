#include "worker/transport/communicator_contract_test.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "worker/transport/contract_exchange.h"

namespace pipestage {

using ::testing::Each;

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

TEST_P(CommunicatorContractTest, ANewGenerationWorksAfterAFailedOne) {
  PIPESTAGE_NEEDS_RANKS(2);
  PIPESTAGE_NEEDS_LOSS_DETECTION();
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
