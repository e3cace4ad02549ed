#include "client/cli/service_readiness.h"

#include "client/testing/fake_coordinator.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

TEST(WhatServiceWaitsForTest, WorkersThenConnectionsThenModels) {
  v1::Status status;
  status.set_workers_expected(2);
  status.add_workers();
  status.set_state(v1::WAITING_FOR_WORKERS);
  EXPECT_EQ(WhatServiceWaitsFor(status, {}),
            "waiting for workers: 1 of 2 are here");

  status.set_state(v1::FORMING);
  EXPECT_EQ(WhatServiceWaitsFor(status, {}),
            "all 2 workers are here and connect to each other");

  status.set_state(v1::READY);
  status.add_serving("a@1");
  EXPECT_EQ(WhatServiceWaitsFor(status, {}), "");
  EXPECT_EQ(WhatServiceWaitsFor(status, {"a", "a@1"}), "");
  EXPECT_EQ(WhatServiceWaitsFor(status, {"a@2", "a", "b"}), "loading a@2, b");
}

TEST(LookAtServiceTest, AsksTheCoordinator) {
  FakeCoordinator coordinator;

  EXPECT_EQ(LookAtService(coordinator.address(), {"echo"}), "");
  EXPECT_EQ(LookAtService("127.0.0.1:1", {}),
            "waiting for the coordinator to answer");
}

}  // namespace
}  // namespace pipestage
