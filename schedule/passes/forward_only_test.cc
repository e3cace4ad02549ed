#include "schedule/passes/forward_only.h"

#include "gtest/gtest.h"

namespace pipestage {
namespace {

TEST(ForwardOnlyTest, KeepsForwardsAndTheirOrder) {
  const ActionRows rows = *ParseCsv(
      "0UNSHARD,0F0,0F1,0B0,0F2,0B1,0B2,0REDUCE_GRAD\n"
      "1F0,1I0,1F1,1W0\n");

  EXPECT_EQ(ToCsv(ForwardOnly(rows)), "0F0,0F1,0F2\n1F0,1F1\n");
}

}  // namespace
}  // namespace pipestage
