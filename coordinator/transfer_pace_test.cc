#include "coordinator/transfer_pace.h"

#include "base/fake_clock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

class TransferPaceTest : public ::testing::Test {
 protected:
  void Begin() {
    pace_->Begin([this](absl::Duration since, int64_t bytes) {
      ++late_;
      since_ = since;
      bytes_ = bytes;
    });
  }
  void Advance(absl::Duration by) {
    clock_.Advance(by);
    timers_.RunDue();
  }

  FakeClock clock_;
  Timers timers_{&clock_};
  const std::shared_ptr<TransferPace> pace_ = TransferPace::Create(
      {.grace = absl::Seconds(30), .min_bytes_per_s = 100}, &clock_, &timers_);
  int late_ = 0;
  absl::Duration since_;
  int64_t bytes_ = 0;
};

TEST_F(TransferPaceTest, NothingWithinTheGraceIsLateOnce) {
  Begin();
  Advance(absl::Seconds(29));
  EXPECT_EQ(late_, 0);

  Advance(absl::Seconds(1));
  Advance(absl::Hours(1));

  EXPECT_EQ(late_, 1);
  EXPECT_EQ(since_, absl::Seconds(30));
  EXPECT_EQ(bytes_, 0);
}

TEST_F(TransferPaceTest, BytesBuyTimeByTheSlowestSpeed) {
  Begin();
  pace_->Moved(1000);  // 10 s at 100 bytes/s
  Advance(absl::Seconds(39));
  EXPECT_EQ(late_, 0);
  Advance(absl::Seconds(2));

  EXPECT_EQ(late_, 1);
  EXPECT_EQ(bytes_, 1000);
}

TEST_F(TransferPaceTest, ASteadyTransferIsNeverLate) {
  Begin();
  for (int i = 0; i < 1000; ++i) {
    pace_->Moved(101);
    Advance(absl::Seconds(1));
  }

  EXPECT_EQ(late_, 0);
}

TEST_F(TransferPaceTest, AnEndedTransferIsForgottenAndTheNextBeginsAnew) {
  Begin();
  Advance(absl::Seconds(29));
  pace_->End();
  Advance(absl::Hours(1));
  EXPECT_EQ(late_, 0);

  Begin();
  Advance(absl::Seconds(29));
  EXPECT_EQ(late_, 0);
  Advance(absl::Seconds(1));

  EXPECT_EQ(late_, 1);
}

TEST_F(TransferPaceTest, APaceThatIsGoneCallsNobody) {
  auto pace = TransferPace::Create({}, &clock_, &timers_);
  pace->Begin([this](auto, auto) { ++late_; });
  pace.reset();

  Advance(absl::Hours(1));

  EXPECT_EQ(late_, 0);
}

}  // namespace
}  // namespace pipestage
