#include "worker/transport/inproc_communicator.h"

#include <thread>

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/transport/communicator_contract_test.h"
#include "worker/transport/in_memory_rendezvous.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Inproc, CommunicatorContractTest,
                         ::testing::Values(ContractBackend{
                             "inproc", InprocCommunicator::Create}),
                         BackendName);

CommunicatorOptions OptionsOf(int rank, InMemoryRendezvous& rendezvous) {
  CommunicatorOptions options;
  options.rank = Rank(rank);
  options.size = 2;
  options.timeout = absl::Seconds(10);
  options.prefix = "test";
  options.rendezvous = &rendezvous;
  return options;
}

TEST(InprocCommunicatorTest, SizesThatDifferEndBothEnds) {
  InMemoryRendezvous rendezvous;
  absl::Status sent, received;
  std::thread sender([&] {
    auto self = InprocCommunicator::Create(OptionsOf(0, rendezvous));
    ASSERT_THAT(self, IsOk());
    int value = 0;
    auto send = (*self)->Send(Rank(1), {ConstPart{&value, 4}}, nullptr);
    ASSERT_THAT(send, IsOk());
    sent = (*send)->Wait();
  });
  auto self = InprocCommunicator::Create(OptionsOf(1, rendezvous));
  ASSERT_THAT(self, IsOk());
  char buffer[8];
  auto receive = (*self)->Receive(Rank(0), {MutablePart{buffer, 8}}, nullptr);
  ASSERT_THAT(receive, IsOk());
  received = (*receive)->Wait();
  sender.join();

  EXPECT_THAT(sent,
              StatusIs(absl::StatusCode::kInternal, HasSubstr("sent 4 bytes")));
  EXPECT_THAT(received,
              StatusIs(absl::StatusCode::kInternal, HasSubstr("expects 8")));
}

TEST(InprocCommunicatorTest, AGroupOfAnotherProcessIsRefused) {
  InMemoryRendezvous rendezvous;
  ASSERT_THAT(rendezvous.Set("test/inproc", "1/1"), IsOk());

  EXPECT_THAT(InprocCommunicator::Create(OptionsOf(1, rendezvous)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(InprocCommunicatorTest, DeviceMemoryIsRefused) {
  InMemoryRendezvous rendezvous;
  CommunicatorOptions options = OptionsOf(0, rendezvous);
  options.size = 1;
  auto self = InprocCommunicator::Create(options);
  ASSERT_THAT(self, IsOk());
  float value = 0;

  EXPECT_THAT(
      (*self)->AllReduceSum({&value, 4, DeviceKind::kCuda}, DType::kFloat32),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace pipestage
