#include "worker/transport/nccl_communicator.h"

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/transport/communicator_contract_test.h"
#include "worker/transport/in_memory_rendezvous.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

ContractBackend Nccl() {
  const int devices = NcclCommunicator::DeviceCount();
  ContractBackend backend;
  backend.name = "nccl";
  backend.create = [](const CommunicatorOptions& options) {
    return NcclCommunicator::Create(options, options.rank.value());
  };
  backend.max_size = devices;
  backend.limit_reason =
      devices == 0 ? "no CUDA device: NCCL test skipped"
                   : absl::StrCat(devices, " CUDA device(s), one rank on each");
  backend.notices_lost_peers = false;
  backend.forming_limit = absl::Seconds(30);
  return backend;
}

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorContractTest,
                         ::testing::Values(Nccl()), BackendName);

TEST(NcclCommunicatorTest, AMissingDeviceIsAnErrorThatNamesIt) {
  InMemoryRendezvous rendezvous;
  CommunicatorOptions options;
  options.prefix = "test";
  options.rendezvous = &rendezvous;

  EXPECT_THAT(NcclCommunicator::Create(options, /*device_index=*/1000),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("device 1000")));
}

TEST(NcclCommunicatorTest, GroupsTooLargeForItsStreamsAreRefused) {
  InMemoryRendezvous rendezvous;
  CommunicatorOptions options;
  options.size = 17;
  options.prefix = "test";
  options.rendezvous = &rendezvous;

  EXPECT_THAT(NcclCommunicator::Create(options, /*device_index=*/0),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace pipestage
