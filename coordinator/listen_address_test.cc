#include "coordinator/listen_address.h"

#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

TEST(ListenAddressTest, LoopbackIsAllowed) {
  for (const char* address : {"127.0.0.1:7070", "127.9.8.7:1", "localhost:0",
                              "[::1]:7070", "unix:/tmp/socket"}) {
    EXPECT_THAT(CheckLoopback(address), IsOk()) << address;
  }
}

TEST(ListenAddressTest, WhatOthersCanReachIsNot) {
  for (const char* address : {"0.0.0.0:7070", "[::]:7070", "192.168.1.1:7070",
                              "127.evil.example:7070", "host:7070"}) {
    EXPECT_THAT(CheckLoopback(address),
                StatusIs(absl::StatusCode::kFailedPrecondition))
        << address;
  }
}

TEST(ListenAddressTest, PortIsNeeded) {
  for (const char* address :
       {"127.0.0.1", "127.0.0.1:", ":7070", "", "127.0.0.1:99999",
        "0.0.0.0:65536", "127.0.0.1:-1", "127.0.0.1:http"}) {
    EXPECT_THAT(CheckLoopback(address),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << address;
  }
}

}  // namespace
}  // namespace pipestage
