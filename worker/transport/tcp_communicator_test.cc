#include "worker/transport/tcp_communicator.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/transport/communicator_contract_test.h"
#include "worker/transport/in_memory_rendezvous.h"
#include "worker/transport/unique_fd.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Tcp, CommunicatorContractTest,
                         ::testing::Values(ContractBackend{
                             "tcp", TcpCommunicator::Create}),
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

// A connection to the rank that published `where`.
UniqueFd ConnectTo(const std::string& where) {
  const std::vector<std::string> fields = absl::StrSplit(where, ' ');
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(fields[1], &port));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, fields[0].c_str(), &address.sin_addr);
  UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(
      connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  return fd;
}

TEST(TcpCommunicatorTest, StrangersNeitherEnterNorDelayTheGroup) {
  InMemoryRendezvous rendezvous;
  absl::StatusOr<std::unique_ptr<Communicator>> zero, one;
  std::thread first(
      [&] { zero = TcpCommunicator::Create(OptionsOf(0, rendezvous)); });
  auto where = rendezvous.Get("test/tcp/0", absl::Seconds(10));
  ASSERT_THAT(where, IsOk());
  const UniqueFd silent = ConnectTo(*where);
  const UniqueFd guessing = ConnectTo(*where);
  const std::string guess = "PSTCP001" + std::string(40, '\0');
  ASSERT_EQ(send(guessing.get(), guess.data(), guess.size(), 0), guess.size());

  one = TcpCommunicator::Create(OptionsOf(1, rendezvous));
  first.join();

  EXPECT_THAT(zero, IsOk());
  EXPECT_THAT(one, IsOk());
  char answer;
  EXPECT_LE(recv(guessing.get(), &answer, 1, 0), 0);  // closed without a word
}

TEST(TcpCommunicatorTest, AnAnswerWithoutOurSecretIsRefused) {
  InMemoryRendezvous rendezvous;
  UniqueFd listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address),
                 sizeof(address)),
            0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  socklen_t size = sizeof(address);
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  ASSERT_THAT(rendezvous.Set("test/tcp/0",
                             absl::StrCat("127.0.0.1 ", ntohs(address.sin_port),
                                          " ", std::string(64, 'a'))),
              IsOk());
  std::thread impostor([&] {
    const UniqueFd fd(accept(listener.get(), nullptr, nullptr));
    const std::string answer = "PSTCP001" + std::string(40, '\0');
    (void)!write(fd.get(), answer.data(), answer.size());
    char byte;
    while (recv(fd.get(), &byte, 1, 0) > 0) {
    }
  });

  EXPECT_THAT(TcpCommunicator::Create(OptionsOf(1, rendezvous)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 0")));
  impostor.join();
}

TEST(TcpCommunicatorTest, LengthsThatDifferEndTheReceiver) {
  InMemoryRendezvous rendezvous;
  absl::StatusOr<std::unique_ptr<Communicator>> zero;
  std::thread first(
      [&] { zero = TcpCommunicator::Create(OptionsOf(0, rendezvous)); });
  auto one = TcpCommunicator::Create(OptionsOf(1, rendezvous));
  first.join();
  ASSERT_THAT(zero, IsOk());
  ASSERT_THAT(one, IsOk());
  int32_t value = 7;
  char buffer[8];

  auto send = (*zero)->Send(Rank(1), {ConstPart{&value, 4}}, nullptr);
  ASSERT_THAT(send, IsOk());
  auto receive = (*one)->Receive(Rank(0), {MutablePart{buffer, 8}}, nullptr);
  ASSERT_THAT(receive, IsOk());

  EXPECT_THAT((*receive)->Wait(),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("rank 0 sent 4 bytes where 8")));
}

TEST(TcpCommunicatorTest, AHostThatIsNotOursIsRefused) {
  InMemoryRendezvous rendezvous;
  CommunicatorOptions options = OptionsOf(0, rendezvous);

  options.host = "no-such-host.invalid";
  EXPECT_THAT(TcpCommunicator::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument));
  options.network_interface = "no-such-interface";
  EXPECT_THAT(TcpCommunicator::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TcpCommunicatorTest, TheLoopbackInterfaceServes) {
  InMemoryRendezvous rendezvous;
  CommunicatorOptions options = OptionsOf(0, rendezvous);
  options.size = 1;
  options.network_interface = "lo";

  EXPECT_THAT(TcpCommunicator::Create(options), IsOk());
}

}  // namespace
}  // namespace pipestage
