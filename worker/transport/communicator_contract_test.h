#ifndef PIPESTAGE_WORKER_TRANSPORT_COMMUNICATOR_CONTRACT_TEST_H_
#define PIPESTAGE_WORKER_TRANSPORT_COMMUNICATOR_CONTRACT_TEST_H_

// What every Communicator promises, as tests. A backend's own test instantiates
// them:
//
//   INSTANTIATE_TEST_SUITE_P(Inproc, CommunicatorContractTest,
//                            ::testing::Values(ContractBackend{...}),
//                            BackendName);

#include <signal.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "worker/transport/communicator.h"
#include "worker/transport/in_memory_rendezvous.h"

namespace pipestage {

struct ContractBackend {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(
      const CommunicatorOptions&)>
      create;
  // Ranks that this machine can hold; tests that need more are skipped.
  int max_size = 8;
  // Why `max_size` is what it is, printed where a test is skipped.
  std::string limit_reason;
  // False where a peer that is gone shows only as a timeout.
  bool notices_lost_peers = true;
  // False where one that goes when part of a message has come shows only as a
  // timeout.
  bool notices_loss_within_a_message = true;
  // Three generations of two ranks form within this time.
  absl::Duration forming_limit = absl::Seconds(1);
};

std::ostream& operator<<(std::ostream& os, const ContractBackend& backend);
std::string BackendName(const ::testing::TestParamInfo<ContractBackend>& info);

class CommunicatorContractTest
    : public ::testing::TestWithParam<ContractBackend> {
 protected:
  using Communicators = std::vector<std::unique_ptr<Communicator>>;

  // As the daemons do: Gloo writes to sockets whose other end has gone.
  CommunicatorContractTest() { signal(SIGPIPE, SIG_IGN); }

  // Forms a group of threads of this process. Null entries where Create failed,
  // which also fails the test.
  Communicators Form(int size, absl::Duration timeout = absl::Seconds(30));

  // Runs `body` for every rank at the same time, each in its thread.
  static void OnAllRanks(Communicators& group,
                         const std::function<void(Communicator&)>& body);

  InMemoryRendezvous rendezvous_;

 private:
  int generation_ = 0;
};

}  // namespace pipestage

// Skips the test where the backend cannot have so many ranks on this machine.
#define PIPESTAGE_NEEDS_RANKS(n)                                               \
  if (GetParam().max_size < (n)) {                                             \
    GTEST_SKIP() << GetParam().limit_reason << " (needs " << (n) << " ranks)"; \
  }

#define PIPESTAGE_NEEDS_LOSS_DETECTION()                              \
  if (!GetParam().notices_lost_peers) {                               \
    GTEST_SKIP() << GetParam().name << " does not notice lost peers"; \
  }

#endif  // PIPESTAGE_WORKER_TRANSPORT_COMMUNICATOR_CONTRACT_TEST_H_
