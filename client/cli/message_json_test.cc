#include "client/cli/message_json.h"

#include <limits>

#include "gtest/gtest.h"
#include "proto/model_service.pb.h"
#include "proto/status_service.pb.h"

namespace pipestage {
namespace {

TEST(MessageToJsonTest, FieldsAreThereByNameWithNumbersAsNumbers) {
  v1::Status status;
  status.set_state(v1::READY);
  status.set_epoch(int64_t{1} << 40);
  status.add_serving("echo@1");
  status.add_workers()->set_name("w0");
  status.mutable_plan_cache()->set_hits(3);

  const Json json = MessageToJson(status);

  EXPECT_EQ(json["state"], "READY");
  EXPECT_EQ(json["epoch"], int64_t{1} << 40);
  EXPECT_EQ(json["generation"], 0);
  EXPECT_EQ(json["serving"], Json::array({"echo@1"}));
  EXPECT_EQ(json["workers"][0]["name"], "w0");
  EXPECT_EQ(json["plan_cache"]["hits"], 3);
  EXPECT_TRUE(json["queue"].is_null());
}

TEST(MessageToJsonTest, WhatIsNotFiniteOrNotSetIsNull) {
  v1::Loss loss;
  loss.set_sum(std::numeric_limits<double>::quiet_NaN());

  const Json json = MessageToJson(loss);

  EXPECT_TRUE(json["sum"].is_null());
  EXPECT_TRUE(json["mean"].is_null());
  EXPECT_EQ(json["weight"], 0);
}

TEST(MessageToJsonTest, BytesAreLeftOut) {
  v1::Tensor tensor;
  tensor.set_data("secret");

  EXPECT_FALSE(MessageToJson(tensor).contains("data"));
}

}  // namespace
}  // namespace pipestage
