#include "coordinator/admission.h"

#include <optional>
#include <vector>

#include "base/error_info.h"
#include "base/fake_clock.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

// What one call got from the admission.
struct Call {
  std::optional<absl::Status> answer;
  Admission::Place place;

  Admission::Admitted Callback() {
    return [this](absl::StatusOr<Admission::Place> got) {
      answer = got.status();
      if (got.ok()) place = *std::move(got);
    };
  }
  bool runs() const { return answer.has_value() && answer->ok(); }
};

class AdmissionTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  Admission admission_{
      {.max_waiting = 2, .max_running = 1, .max_bytes = 100, .clock = &clock_}};
};

TEST_F(AdmissionTest, CallRunsAtOnceWhenThereIsRoom) {
  Call call;

  const auto wait = admission_.Enter(absl::InfiniteFuture(), call.Callback());

  EXPECT_EQ(wait, 0);
  EXPECT_TRUE(call.runs());
  EXPECT_EQ(admission_.counts().running, 1);
}

TEST_F(AdmissionTest, CallsRunInTheOrderInWhichTheyEntered) {
  Call first, second, third;
  admission_.Enter(absl::InfiniteFuture(), first.Callback());
  admission_.Enter(absl::InfiniteFuture(), second.Callback());
  admission_.Enter(absl::InfiniteFuture(), third.Callback());
  EXPECT_FALSE(second.answer.has_value());

  first.place.Release();
  EXPECT_TRUE(second.runs());
  EXPECT_FALSE(third.answer.has_value());
  second.place.Release();

  EXPECT_TRUE(third.runs());
}

TEST(ManyWaitingTest, CallsThatGiveTheirPlaceBackAtOnceNeedNoStack) {
  constexpr int kWaiting = 500'000;
  FakeClock clock;
  Admission admission({.max_waiting = kWaiting, .clock = &clock});
  std::vector<Call> running(admission.options().max_running);
  for (Call& call : running) {
    admission.Enter(absl::InfiniteFuture(), call.Callback());
  }
  int refused = 0;
  for (int i = 0; i < kWaiting; ++i) {
    admission.Enter(absl::InfiniteFuture(),
                    [&refused](absl::StatusOr<Admission::Place> place) {
                      refused += place.ok();  // and drops it
                    });
  }

  running[0].place.Release();

  EXPECT_EQ(refused, kWaiting);
  EXPECT_EQ(admission.counts().waiting, 0);
  EXPECT_EQ(admission.counts().running, admission.options().max_running - 1);
}

TEST_F(AdmissionTest, FullQueueRefusesAndSaysSo) {
  Call calls[4];

  for (Call& call : calls) {
    admission_.Enter(absl::InfiniteFuture(), call.Callback());
  }

  ASSERT_TRUE(calls[3].answer.has_value());
  EXPECT_THAT(*calls[3].answer, StatusIs(absl::StatusCode::kResourceExhausted,
                                         HasSubstr("try again")));
  EXPECT_EQ(GetReason(*calls[3].answer), reason::kQueueFull);
  EXPECT_EQ(admission_.counts().waiting, 2);
}

TEST_F(AdmissionTest, DeadlineEndsAWait) {
  Call running, waiting;
  admission_.Enter(absl::InfiniteFuture(), running.Callback());
  admission_.Enter(clock_.Now() + absl::Seconds(5), waiting.Callback());
  admission_.ExpireWaits();
  EXPECT_FALSE(waiting.answer.has_value());

  clock_.Advance(absl::Seconds(5));
  admission_.ExpireWaits();

  ASSERT_TRUE(waiting.answer.has_value());
  EXPECT_THAT(*waiting.answer, StatusIs(absl::StatusCode::kDeadlineExceeded));
  running.place.Release();
  EXPECT_EQ(admission_.counts().running, 0);
}

TEST_F(AdmissionTest, CallThatLeavesIsToldAndPassedOver) {
  Call running, leaving, next;
  admission_.Enter(absl::InfiniteFuture(), running.Callback());
  const auto wait =
      admission_.Enter(absl::InfiniteFuture(), leaving.Callback());
  admission_.Enter(absl::InfiniteFuture(), next.Callback());

  admission_.Leave(wait, absl::CancelledError("gone"));
  admission_.Leave(wait, absl::CancelledError("again"));
  running.place.Release();

  EXPECT_THAT(*leaving.answer, StatusIs(absl::StatusCode::kCancelled, "gone"));
  EXPECT_TRUE(next.runs());
}

TEST_F(AdmissionTest, ClosedQueueRefusesNewCallsAndServesThoseThatWait) {
  Call running, waiting, late;
  admission_.Enter(absl::InfiniteFuture(), running.Callback());
  admission_.Enter(absl::InfiniteFuture(), waiting.Callback());

  admission_.CloseQueue(absl::UnavailableError("draining"));
  admission_.Enter(absl::InfiniteFuture(), late.Callback());
  running.place.Release();

  EXPECT_THAT(*late.answer, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(waiting.runs());
}

TEST_F(AdmissionTest, ExpelledCallsAreTold) {
  Call running, waiting;
  admission_.Enter(absl::InfiniteFuture(), running.Callback());
  admission_.Enter(absl::InfiniteFuture(), waiting.Callback());

  admission_.ExpelWaiting(absl::UnavailableError("stopping"));

  EXPECT_THAT(*waiting.answer, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(admission_.counts().waiting, 0);
}

TEST_F(AdmissionTest, BytesAreBoundedAndComeBack) {
  auto first = admission_.Reserve(60);
  ASSERT_THAT(first, IsOk());
  const auto refused = admission_.Reserve(41);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(GetReason(refused.status()), reason::kQueueFull);

  first->Release();

  EXPECT_EQ(admission_.counts().bytes, 0);
  EXPECT_THAT(admission_.Reserve(100), IsOk());
}

TEST_F(AdmissionTest, CallThatCanNeverFitIsToldAnotherReason) {
  const auto refused = admission_.Reserve(101);

  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("101")));
  EXPECT_EQ(GetReason(refused.status()), reason::kMessageTooLarge);
}

}  // namespace
}  // namespace pipestage
