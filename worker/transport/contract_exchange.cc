#include "worker/transport/contract_exchange.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

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

}  // namespace

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

}  // namespace pipestage
