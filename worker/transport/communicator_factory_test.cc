#include "worker/transport/communicator_factory.h"

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/transport/in_memory_rendezvous.h"
#include "worker/transport/nccl_communicator.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CommunicatorOptions OptionsOfOne(InMemoryRendezvous& rendezvous) {
  CommunicatorOptions options;
  options.timeout = absl::Seconds(10);
  options.prefix = "test";
  options.rendezvous = &rendezvous;
  return options;
}

TEST(CommunicatorFactoryTest, MakesEachBackendByName) {
  InMemoryRendezvous rendezvous;
  for (const char* backend : {"inproc", "gloo", "tcp"}) {
    auto made = CreateCommunicator(backend, OptionsOfOne(rendezvous), 0);

    ASSERT_THAT(made, IsOk());
    EXPECT_EQ((*made)->backend(), backend);
  }
}

TEST(CommunicatorFactoryTest, AnUnknownBackendIsNamed) {
  InMemoryRendezvous rendezvous;
  EXPECT_THAT(CreateCommunicator("mpi", OptionsOfOne(rendezvous), 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mpi")));
}

TEST(CommunicatorFactoryTest, NcclIsThereOnlyWithADevice) {
  EXPECT_THAT(AvailableBackends(DeviceKind::kHost), ElementsAre("gloo", "tcp"));
  if (NcclCommunicator::DeviceCount() > 0) {
    EXPECT_THAT(AvailableBackends(DeviceKind::kCuda), ElementsAre("nccl"));
  } else {
    EXPECT_THAT(AvailableBackends(DeviceKind::kCuda), IsEmpty());
  }
}

}  // namespace
}  // namespace pipestage
