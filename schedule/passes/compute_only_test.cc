#include "schedule/passes/compute_only.h"

#include "gtest/gtest.h"

namespace pipestage {
namespace {

TEST(ComputeOnlyTest, ItUndoesALowering) {
  EXPECT_EQ(ToCsv(ComputeOnly(
                *ParseCsv("0UNSHARD,0F0,0SEND_F0,0RECV_B0,0I0,0W0,0REDUCE_GRAD,"
                          "0RESHARD\n"
                          "1RECV_F0,1F0,1B0,1SEND_B0\n"))),
            "0F0,0I0,0W0\n"
            "1F0,1B0\n");
}

}  // namespace
}  // namespace pipestage
