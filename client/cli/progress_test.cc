#include "client/cli/progress.h"

#include <sstream>
#include <string>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

v1::MicrobatchLoss Microbatch(int microbatch) {
  v1::MicrobatchLoss loss;
  loss.set_microbatch(microbatch);
  loss.set_first_row(microbatch * 2);
  loss.set_rows(2);
  loss.mutable_loss()->set_sum(1.5);
  loss.mutable_loss()->set_weight(2);
  return loss;
}

// A stream that tells when something was written.
class WatchedBuffer : public std::stringbuf {
 public:
  void AwaitWrite() { written_.WaitForNotification(); }

 private:
  int sync() override {
    if (!written_.HasBeenNotified()) written_.Notify();
    return 0;
  }

  absl::Notification written_;
};

TEST(ProgressTest, LinesHaveNoControlCharacters) {
  std::ostringstream err;
  {
    Progress progress(err, Progress::Mode::kLines);
    progress.callback()(Microbatch(1));
  }

  EXPECT_THAT(err.str(),
              HasSubstr("microbatch 1, rows 2..3: loss sum 1.5, weight 2 ("));
  EXPECT_THAT(err.str(), Not(HasSubstr("\r")));
}

TEST(ProgressTest, WhatIsQuickShowsNothing) {
  std::ostringstream err;
  {
    Progress progress(err, Progress::Mode::kLive, absl::Hours(1));
    progress.callback()(Microbatch(0));
  }

  EXPECT_EQ(err.str(), "");
}

TEST(ProgressTest, WhatTakesLongerShowsALineAndRemovesIt) {
  WatchedBuffer buffer;
  std::ostream err(&buffer);
  {
    Progress progress(err, Progress::Mode::kLive, absl::ZeroDuration());
    buffer.AwaitWrite();
  }

  EXPECT_THAT(buffer.str(), HasSubstr("microbatches, 0 rows done"));
  EXPECT_THAT(buffer.str(), EndsWith(" \r"));
}

TEST(ProgressTest, NothingIsWatchedWhenNothingIsShown) {
  std::ostringstream err;
  Progress progress(err, Progress::Mode::kNone);

  EXPECT_EQ(progress.callback(), nullptr);
}

}  // namespace
}  // namespace pipestage
