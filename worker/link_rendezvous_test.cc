#include "worker/link_rendezvous.h"

#include <thread>

#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

// Answers each request at once with the key it asks for, unless it is "never".
class EchoingStore : public Outbox {
 public:
  void Send(v1::WorkerMessage message) override {
    if (!message.has_store_get() || message.store_get().key() == "never") {
      return;
    }
    v1::StoreValue value;
    value.set_request_id(message.store_get().request_id());
    value.set_value("value of " + message.store_get().key());
    rendezvous->OnValue(std::move(value));
  }
  LinkRendezvous* rendezvous = nullptr;
};

class LinkRendezvousTest : public ::testing::Test {
 protected:
  LinkRendezvousTest() { store_.rendezvous = &rendezvous_; }

  EchoingStore store_;
  LinkRendezvous rendezvous_{&store_, 100};
};

TEST_F(LinkRendezvousTest, GetReturnsTheCoordinatorsValue) {
  EXPECT_THAT(rendezvous_.Get("a", absl::Seconds(10)),
              IsOkAndHolds("value of a"));
  EXPECT_THAT(rendezvous_.Get("b", absl::Seconds(10)),
              IsOkAndHolds("value of b"));
}

TEST_F(LinkRendezvousTest, KeyThatDoesNotComeEndsInTime) {
  EXPECT_THAT(rendezvous_.Get("never", absl::Milliseconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("no value for never")));
}

TEST_F(LinkRendezvousTest, CloseEndsWhatWaitsAndWhatComes) {
  std::thread closer([this] { rendezvous_.Close("the stream is lost"); });

  EXPECT_THAT(
      rendezvous_.Get("never", absl::Seconds(10)),
      StatusIs(absl::StatusCode::kCancelled, HasSubstr("the stream is lost")));
  closer.join();
  EXPECT_THAT(rendezvous_.Set("a", "b"),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(LinkRendezvousTest, AnswersNobodyWaitsForArePassedOver) {
  v1::StoreValue value;
  value.set_request_id(100);
  value.set_value("of an earlier rendezvous");

  rendezvous_.OnValue(value);

  EXPECT_THAT(rendezvous_.Get("a", absl::Seconds(10)),
              IsOkAndHolds("value of a"));
}

}  // namespace
}  // namespace pipestage
