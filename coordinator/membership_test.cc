#include "coordinator/membership.h"

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/protocol_version.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;
using Kind = v1::CoordinatorMessage::KindCase;

class MembershipTest : public ::testing::Test {
 protected:
  explicit MembershipTest(int num_ranks = 2)
      : membership_(MakeOptions(num_ranks)) {}

  Membership::Options MakeOptions(int num_ranks) {
    Membership::Options options;
    options.num_ranks = num_ranks;
    options.draw_store_prefix = [this] {
      return absl::StrCat("p", ++prefixes_, "/");
    };
    return options;
  }

  static v1::Hello HelloOf(int64_t incarnation, int wanted = -1) {
    v1::Hello hello;
    hello.set_protocol_version(kWorkerLinkProtocolVersion);
    hello.set_feed_window_bytes(1);
    hello.set_name(absl::StrCat("w", incarnation));
    hello.set_incarnation(incarnation);
    hello.set_requested_rank(wanted);
    hello.add_backends("gloo");
    return hello;
  }

  absl::StatusOr<Rank> Attach(int64_t id, const v1::Hello& hello) {
    return membership_.Attach(AttachmentId(id), hello, now_, effects_);
  }

  void Formed(int64_t id, absl::Status error = absl::OkStatus()) {
    v1::CommunicatorFormed formed;
    formed.set_generation(membership_.generation().value());
    if (!error.ok()) *formed.mutable_error() = ToRpcStatus(error);
    membership_.OnFormed(AttachmentId(id), formed, now_, effects_);
  }

  void MakeReady() {
    ASSERT_TRUE(Attach(1, HelloOf(11)).ok());
    ASSERT_TRUE(Attach(2, HelloOf(12)).ok());
    Formed(1);
    Formed(2);
    ASSERT_EQ(membership_.state(), Membership::State::kReady);
    effects_ = {};
  }

  void Advance(absl::Duration by) {
    now_ += by;
    membership_.Tick(now_, effects_);
  }

  void HearBoth() {
    membership_.Heard(AttachmentId(1), now_);
    membership_.Heard(AttachmentId(2), now_);
  }

  int CountSent(Kind kind) const {
    int count = 0;
    for (const auto& [id, message] : effects_.messages) {
      count += message.kind_case() == kind;
    }
    return count;
  }

  int prefixes_ = 0;
  Membership membership_;
  Membership::Effects effects_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(MembershipTest, WorkersGetTheLowestFreeRankOrTheOneTheyAskFor) {
  EXPECT_THAT(Attach(1, HelloOf(11, /*wanted=*/1)), IsOkAndHolds(Rank(1)));
  EXPECT_THAT(Attach(2, HelloOf(12)), IsOkAndHolds(Rank(0)));
}

TEST_F(MembershipTest, SpareIsRefused) {
  MakeReady();

  EXPECT_THAT(Attach(3, HelloOf(13)),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(MembershipTest, RankOfALiveWorkerIsRefused) {
  MakeReady();

  EXPECT_THAT(Attach(3, HelloOf(13, /*wanted=*/1)),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("w12")));
  EXPECT_EQ(membership_.state(), Membership::State::kReady);
}

TEST_F(MembershipTest, NewIncarnationReplacesASilentWorker) {
  MakeReady();
  now_ += absl::Seconds(4);

  const auto rank = Attach(3, HelloOf(13, /*wanted=*/1));

  EXPECT_THAT(rank, IsOkAndHolds(Rank(1)));
  ASSERT_EQ(effects_.closes.size(), 1);
  EXPECT_EQ(effects_.closes[0].first, AttachmentId(2));
  EXPECT_EQ(membership_.state(), Membership::State::kForming);
  EXPECT_EQ(membership_.generation(), Generation(2));
  EXPECT_EQ(GetReason(membership_.last_failure()), reason::kWorkerLost);
}

TEST_F(MembershipTest, SameProcessThatDialsAgainReplacesItself) {
  MakeReady();

  EXPECT_THAT(Attach(3, HelloOf(12)), IsOkAndHolds(Rank(1)));
  EXPECT_EQ(effects_.closes.size(), 1);
}

TEST_F(MembershipTest, OtherProtocolAndRanksThatDoNotExistAreRefused) {
  v1::Hello old = HelloOf(11);
  old.set_protocol_version(kWorkerLinkProtocolVersion + 1);

  EXPECT_THAT(Attach(1, old), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(Attach(2, HelloOf(12, /*wanted=*/2)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2")));
}

TEST_F(MembershipTest, GenerationIsReadyWhenAllHaveFormed) {
  ASSERT_TRUE(Attach(1, HelloOf(11)).ok());
  EXPECT_EQ(membership_.state(), Membership::State::kWaiting);
  ASSERT_TRUE(Attach(2, HelloOf(12)).ok());
  EXPECT_EQ(membership_.state(), Membership::State::kForming);
  EXPECT_EQ(CountSent(Kind::kFormCommunicator), 2);

  Formed(1);
  EXPECT_EQ(membership_.state(), Membership::State::kForming);
  Formed(2);

  EXPECT_EQ(membership_.state(), Membership::State::kReady);
  EXPECT_EQ(membership_.generation(), Generation(1));
  EXPECT_EQ(membership_.store_prefix(), "p1/");
}

TEST_F(MembershipTest, BackendIsTheFirstThatAllOffer) {
  v1::Hello first = HelloOf(11);
  first.clear_backends();
  first.add_backends("nccl");
  first.add_backends("gloo");
  ASSERT_TRUE(Attach(1, first).ok());
  ASSERT_TRUE(Attach(2, HelloOf(12)).ok());

  EXPECT_EQ(membership_.backend(), "gloo");
}

TEST_F(MembershipTest, NoCommonBackendIsSaid) {
  v1::Hello first = HelloOf(11);
  first.clear_backends();
  first.add_backends("nccl");
  ASSERT_TRUE(Attach(1, first).ok());
  ASSERT_TRUE(Attach(2, HelloOf(12)).ok());

  EXPECT_EQ(membership_.state(), Membership::State::kWaiting);
  EXPECT_THAT(membership_.last_failure().message(), HasSubstr("backend"));
}

TEST_F(MembershipTest, LostWorkerEndsTheGenerationAndIsNamed) {
  MakeReady();

  membership_.Detach(AttachmentId(2), absl::UnavailableError("stream ended"),
                     now_, effects_);

  EXPECT_EQ(membership_.state(), Membership::State::kWaiting);
  EXPECT_EQ(CountSent(Kind::kAbortCommunicator), 1);
  EXPECT_THAT(membership_.last_failure(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("worker w12 (rank 1) was lost")));
  EXPECT_EQ(GetErrorInfo(membership_.last_failure())->metadata().at("rank"),
            "1");
}

TEST_F(MembershipTest, ReturningWorkerFormsTheNextGenerationAtOnce) {
  MakeReady();
  membership_.Detach(AttachmentId(2), absl::OkStatus(), now_, effects_);

  ASSERT_THAT(Attach(3, HelloOf(13)), IsOkAndHolds(Rank(1)));

  EXPECT_EQ(membership_.state(), Membership::State::kForming);
  EXPECT_EQ(membership_.generation(), Generation(2));
  EXPECT_EQ(membership_.store_prefix(), "p2/");
}

TEST_F(MembershipTest, LeavingWorkerEndsNothingUntilItGoes) {
  MakeReady();
  v1::Leaving leaving;

  membership_.OnLeaving(AttachmentId(2), leaving, now_, effects_);
  EXPECT_EQ(membership_.state(), Membership::State::kReady);
  EXPECT_EQ(membership_.Leaving(), "worker w12 (rank 1)");
  EXPECT_TRUE(effects_.changed);
  membership_.DismissLeaving(effects_);
  membership_.DismissLeaving(effects_);
  EXPECT_EQ(CountSent(Kind::kShutdown), 1);
  membership_.Detach(AttachmentId(2), absl::OkStatus(), now_, effects_);

  EXPECT_EQ(membership_.state(), Membership::State::kWaiting);
  EXPECT_EQ(membership_.last_failure().message(),
            "worker w12 (rank 1) has left");
}

TEST_F(MembershipTest, WhenAllAreDismissedEachIsToldOnceAndLeaves) {
  MakeReady();
  membership_.OnLeaving(AttachmentId(2), v1::Leaving(), now_, effects_);
  membership_.DismissLeaving(effects_);

  membership_.DismissAll("the coordinator is shutting down", effects_);
  membership_.Detach(AttachmentId(1), absl::OkStatus(), now_, effects_);

  EXPECT_EQ(CountSent(Kind::kShutdown), 2);
  EXPECT_EQ(membership_.last_failure().message(),
            "worker w11 (rank 0) has left");
}

TEST_F(MembershipTest, NothingIsFormedWithAWorkerThatIsLeaving) {
  MakeReady();
  membership_.OnLeaving(AttachmentId(2), v1::Leaving(), now_, effects_);
  membership_.OnFailed(AttachmentId(1), membership_.generation(),
                       absl::InternalError("out of step"), now_, effects_);
  HearBoth();
  Advance(absl::Seconds(1));
  HearBoth();
  Advance(absl::Seconds(1));

  EXPECT_EQ(membership_.state(), Membership::State::kWaiting);
  EXPECT_EQ(CountSent(Kind::kFormCommunicator), 0);
}

TEST_F(MembershipTest, WorkerThatGoesAtOnceIsTheCauseByItsOwnWords) {
  MakeReady();
  v1::Leaving leaving;
  leaving.set_at_once(true);
  leaving.set_reason("stage 1 is stuck");

  membership_.OnLeaving(AttachmentId(2), leaving, now_, effects_);

  EXPECT_EQ(membership_.state(), Membership::State::kWaiting);
  EXPECT_EQ(membership_.last_failure().message(),
            "worker w12 (rank 1) was lost: stage 1 is stuck");
  ASSERT_EQ(effects_.closes.size(), 1);
  EXPECT_EQ(effects_.closes[0].first, AttachmentId(2));
}

TEST_F(MembershipTest, SilentWorkerIsLostAfterTheTimeout) {
  MakeReady();
  Advance(absl::Seconds(9));
  membership_.Heard(AttachmentId(1), now_);
  EXPECT_EQ(membership_.state(), Membership::State::kReady);

  Advance(absl::Seconds(2));

  EXPECT_EQ(membership_.state(), Membership::State::kWaiting);
  ASSERT_EQ(effects_.closes.size(), 1);
  EXPECT_EQ(effects_.closes[0].first, AttachmentId(2));
  EXPECT_EQ(membership_.Find(AttachmentId(2)), nullptr);
}

TEST_F(MembershipTest, PingsGoOutOncePerIntervalAndMeasureTheRoundTrip) {
  MakeReady();
  Advance(absl::Seconds(1));
  EXPECT_EQ(CountSent(Kind::kPing), 2);
  Advance(absl::Milliseconds(500));
  EXPECT_EQ(CountSent(Kind::kPing), 2);

  v1::Pong pong;
  pong.set_sequence(effects_.messages.back().second.ping().sequence());
  pong.set_resident_bytes(42);
  membership_.OnPong(AttachmentId(2), pong, now_);

  EXPECT_EQ(membership_.members()[1]->resident_bytes, 42);
  EXPECT_EQ(membership_.members()[1]->round_trip, absl::Milliseconds(500));
}

TEST_F(MembershipTest, FailedFormationIsTriedAgainAfterABackOffThatDoubles) {
  ASSERT_TRUE(Attach(1, HelloOf(11)).ok());
  ASSERT_TRUE(Attach(2, HelloOf(12)).ok());
  for (const auto back_off :
       {absl::Milliseconds(100), absl::Milliseconds(200)}) {
    const Generation generation = membership_.generation();
    Formed(1, absl::InternalError("no route"));
    Advance(absl::Milliseconds(250));  // nobody was lost: that was the cause
    ASSERT_EQ(membership_.state(), Membership::State::kWaiting);
    EXPECT_THAT(membership_.last_failure().message(), HasSubstr("no route"));

    Advance(back_off - absl::Milliseconds(1));
    EXPECT_EQ(membership_.state(), Membership::State::kWaiting);
    Advance(absl::Milliseconds(1));

    EXPECT_EQ(membership_.state(), Membership::State::kForming);
    EXPECT_EQ(membership_.generation(), generation + 1);
  }
}

TEST_F(MembershipTest, FormationThatTakesTooLongNamesWhoIsMissing) {
  ASSERT_TRUE(Attach(1, HelloOf(11)).ok());
  ASSERT_TRUE(Attach(2, HelloOf(12)).ok());
  Formed(1);

  for (int i = 0; i < 36; ++i) {
    HearBoth();
    Advance(absl::Seconds(1));
  }

  EXPECT_THAT(membership_.last_failure().message(), HasSubstr("w12"));
  EXPECT_EQ(GetReason(membership_.last_failure()), reason::kCommunicatorFailed);
}

TEST_F(MembershipTest, LossBehindAFailedCommunicatorIsTheCause) {
  MakeReady();
  membership_.OnFailed(AttachmentId(1), membership_.generation(),
                       absl::InternalError("connection reset"), now_, effects_);
  EXPECT_EQ(membership_.state(), Membership::State::kReady);

  membership_.Detach(AttachmentId(2), absl::UnavailableError("killed"), now_,
                     effects_);

  EXPECT_EQ(GetReason(membership_.last_failure()), reason::kWorkerLost);
}

TEST_F(MembershipTest, FailedCommunicatorEndsTheGenerationWhenNobodyIsLost) {
  MakeReady();
  membership_.OnFailed(AttachmentId(1), membership_.generation(),
                       absl::InternalError("out of step"), now_, effects_);

  Advance(absl::Milliseconds(250));

  EXPECT_EQ(membership_.state(), Membership::State::kWaiting);
  EXPECT_EQ(GetReason(membership_.last_failure()), reason::kCommunicatorFailed);
  EXPECT_THAT(membership_.last_failure().message(), HasSubstr("out of step"));
  EXPECT_EQ(CountSent(Kind::kAbortCommunicator), 2);
}

TEST_F(MembershipTest, NewsOfAnOlderGenerationChangeNothing) {
  MakeReady();

  membership_.OnFailed(AttachmentId(1), Generation(0),
                       absl::InternalError("late"), now_, effects_);
  v1::CommunicatorFormed formed;
  formed.set_generation(0);
  membership_.OnFormed(AttachmentId(1), formed, now_, effects_);
  Advance(absl::Milliseconds(250));

  EXPECT_EQ(membership_.state(), Membership::State::kReady);
}

TEST_F(MembershipTest, NameCutInsideACharacterStaysText) {
  v1::Hello hello = HelloOf(11);
  hello.set_name(std::string(255, 'a') + "é");

  ASSERT_TRUE(Attach(1, hello).ok());

  EXPECT_EQ(membership_.Find(AttachmentId(1))->name, std::string(255, 'a'));
}

}  // namespace
}  // namespace pipestage
