#include "client/cli/status_report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

TEST(StatusTextTest, WorkersModelsAndCountersAreTold) {
  v1::Status status;
  status.set_state(v1::WAITING_FOR_WORKERS);
  status.set_workers_expected(2);
  v1::WorkerStatus* worker = status.add_workers();
  worker->set_name("w0");
  worker->set_device("cpu");
  worker->set_backend("gloo");
  worker->add_stages("echo@1/0");
  worker->set_resident_bytes(123'456'789);
  status.add_serving("echo@1");
  status.mutable_plan_cache()->set_misses(7);
  status.set_last_failure("worker w1 was lost");

  const std::string text = StatusText(status);

  EXPECT_THAT(text, HasSubstr("WAITING FOR WORKERS"));
  EXPECT_THAT(text, HasSubstr("1 of 2"));
  EXPECT_THAT(text, HasSubstr("w0      cpu, gloo"));
  EXPECT_THAT(text, HasSubstr("123.5 MB resident; echo@1/0"));
  EXPECT_THAT(text, HasSubstr("serving   echo@1\n"));
  EXPECT_THAT(text, HasSubstr("7 misses"));
  EXPECT_THAT(text, HasSubstr("failure   worker w1 was lost\n"));
}

TEST(StatusTextTest, AnIdleServiceIsToldToo) {
  EXPECT_THAT(StatusText({}), HasSubstr("serving   no models\n"));
}

}  // namespace
}  // namespace pipestage
