#include "client/cli/error_text.h"

#include "base/error_info.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

TEST(ErrorTextTest, WhatWhereAndWhatNextAreTold) {
  const absl::Status status =
      WithReason(absl::UnavailableError("worker w1 was lost"),
                 reason::kWorkerLost, {{"worker", "w1"}, {"rank", "1"}});

  EXPECT_EQ(ErrorText(status, "h:1"),
            "pipestage: UNAVAILABLE: worker w1 was lost\n"
            "  reason: WORKER_LOST, rank 1, worker w1\n"
            "  next: repeat the call, it is safe to; `pipestage status` shows "
            "when the pipeline is READY again\n");
}

TEST(ErrorTextTest, NobodyAnsweringIsToldWithTheAddress) {
  EXPECT_THAT(ErrorText(absl::UnavailableError("refused"), "h:1"),
              HasSubstr("listen at h:1?"));
}

TEST(ErrorTextTest, AnErrorOfOursIsOneLine) {
  EXPECT_EQ(ErrorText(absl::NotFoundError("x.npy: no such file"), "h:1"),
            "pipestage: NOT_FOUND: x.npy: no such file\n");
}

}  // namespace
}  // namespace pipestage
