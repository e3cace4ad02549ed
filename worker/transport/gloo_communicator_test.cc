#include "worker/transport/gloo_communicator.h"

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/transport/communicator_contract_test.h"
#include "worker/transport/in_memory_rendezvous.h"

namespace pipestage {
namespace {

INSTANTIATE_TEST_SUITE_P(Gloo, CommunicatorContractTest,
                         ::testing::Values(ContractBackend{
                             .name = "gloo",
                             .create = GlooCommunicator::Create,
                             .notices_loss_within_a_message = false}),
                         BackendName);

CommunicatorOptions OptionsOfOne(InMemoryRendezvous& rendezvous) {
  CommunicatorOptions options;
  options.timeout = absl::Seconds(10);
  options.prefix = "test";
  options.rendezvous = &rendezvous;
  return options;
}

TEST(GlooCommunicatorTest, AClosedRendezvousIsTheError) {
  InMemoryRendezvous rendezvous;
  CommunicatorOptions options = OptionsOfOne(rendezvous);
  options.size = 2;
  rendezvous.Close();

  EXPECT_THAT(GlooCommunicator::Create(options),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST(GlooCommunicatorTest, AnUnknownHostOrInterfaceIsAnError) {
  InMemoryRendezvous rendezvous;
  CommunicatorOptions options = OptionsOfOne(rendezvous);

  options.host = "no-such-host.invalid";
  EXPECT_THAT(GlooCommunicator::Create(options),
              StatusIs(absl::StatusCode::kUnavailable));
  options.network_interface = "no-such-interface";
  EXPECT_THAT(GlooCommunicator::Create(options),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST(GlooCommunicatorTest, TheLoopbackInterfaceServes) {
  InMemoryRendezvous rendezvous;
  CommunicatorOptions options = OptionsOfOne(rendezvous);
  options.network_interface = "lo";

  EXPECT_THAT(GlooCommunicator::Create(options), IsOk());
}

TEST(GlooCommunicatorTest, DeviceMemoryIsRefused) {
  InMemoryRendezvous rendezvous;
  auto self = GlooCommunicator::Create(OptionsOfOne(rendezvous));
  ASSERT_THAT(self, IsOk());
  float value = 0;

  EXPECT_THAT(
      (*self)->AllReduceSum({&value, 4, DeviceKind::kCuda}, DType::kFloat32),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace pipestage
