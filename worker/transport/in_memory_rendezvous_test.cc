#include "worker/transport/in_memory_rendezvous.h"

#include <thread>

#include "absl/time/time.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

TEST(InMemoryRendezvousTest, GetReturnsTheLatestValue) {
  InMemoryRendezvous rendezvous;
  ASSERT_THAT(rendezvous.Set("a", "1"), IsOk());
  ASSERT_THAT(rendezvous.Set("a", "2"), IsOk());

  EXPECT_THAT(rendezvous.Get("a", absl::ZeroDuration()),
              IsOkAndHolds(std::string("2")));
}

TEST(InMemoryRendezvousTest, GetWaitsForASetOfAnotherThread) {
  InMemoryRendezvous rendezvous;
  std::thread setter([&] { (void)rendezvous.Set("late", "value"); });

  EXPECT_THAT(rendezvous.Get("late", absl::Seconds(10)),
              IsOkAndHolds(std::string("value")));
  setter.join();
}

TEST(InMemoryRendezvousTest, MissingKeyIsNamedWhenTheTimeIsOver) {
  InMemoryRendezvous rendezvous;

  EXPECT_THAT(
      rendezvous.Get("missing", absl::Milliseconds(1)),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("missing")));
}

TEST(InMemoryRendezvousTest, CloseEndsWaitingAndLaterCalls) {
  InMemoryRendezvous rendezvous;
  std::thread closer([&] { rendezvous.Close(); });

  EXPECT_THAT(rendezvous.Get("never", absl::Seconds(10)),
              StatusIs(absl::StatusCode::kCancelled));
  closer.join();
  EXPECT_THAT(rendezvous.Set("a", "1"), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace pipestage
