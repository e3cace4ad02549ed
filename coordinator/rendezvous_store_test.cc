#include "coordinator/rendezvous_store.h"

#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

constexpr RendezvousStore::Waiter kWaiter = {AttachmentId(1), 5};

TEST(RendezvousStoreTest, ValueThatIsThereIsAnsweredAtOnce) {
  RendezvousStore store;
  store.Begin("g1/");
  ASSERT_THAT(store.Set("g1/a", "address"), IsOk());

  EXPECT_THAT(store.Get("g1/a", kWaiter), IsOkAndHolds("address"));
}

TEST(RendezvousStoreTest, WaitersAreReturnedByTheSet) {
  RendezvousStore store;
  store.Begin("g1/");
  ASSERT_THAT(store.Get("g1/a", kWaiter), IsOkAndHolds(std::nullopt));
  ASSERT_THAT(store.Get("g1/a", {AttachmentId(2), 6}),
              IsOkAndHolds(std::nullopt));

  const auto waiters = store.Set("g1/a", "address");

  ASSERT_THAT(waiters, IsOk());
  ASSERT_EQ(waiters->size(), 2);
  EXPECT_EQ((*waiters)[0].request_id, 5);
  EXPECT_EQ((*waiters)[1].attachment, AttachmentId(2));
}

TEST(RendezvousStoreTest, NextGenerationForgetsAndRefusesOldKeys) {
  RendezvousStore store;
  store.Begin("g1/");
  ASSERT_THAT(store.Set("g1/a", "old"), IsOk());
  ASSERT_THAT(store.Get("g1/b", kWaiter), IsOk());

  store.Begin("g2/");

  EXPECT_EQ(store.size_bytes(), 0);
  EXPECT_THAT(store.Set("g1/b", "late"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(store.Get("g2/a", kWaiter), IsOkAndHolds(std::nullopt));
}

TEST(RendezvousStoreTest, ClosedStoreRefusesEverything) {
  RendezvousStore store;

  EXPECT_THAT(store.Set("a", "b"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(RendezvousStoreTest, SizesAreBounded) {
  RendezvousStore store(
      {.key_bytes = 4, .value_bytes = 8, .total_bytes = 15, .waiting = 1});
  store.Begin("g/");

  EXPECT_THAT(store.Set("g/long", "v"),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(store.Set("g/a", "123456789"),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(store.Set("g/a", "12345678"), IsOk());
  EXPECT_THAT(store.Set("g/a", "1234567"), IsOk());  // replaces
  EXPECT_THAT(store.Set("g/b", "12345"),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(store.Get("g/c", kWaiter), IsOk());
  EXPECT_THAT(store.Get("g/d", kWaiter),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace pipestage
