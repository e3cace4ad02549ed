#include "base/strict_json.h"

#include <string>

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(StrictJsonTest, ValueIsThatOfTheText) {
  const std::string text =
      R"({"a":[1,-2,2.5,"x",true,null,{"b":{}}],"c":[[],[[1]]]})";

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const nlohmann::json value,
                                 ParseStrictJson(text, 5));

  EXPECT_EQ(value.dump(), text);
}

TEST(StrictJsonTest, ScalarsAreValuesToo) {
  EXPECT_THAT(ParseStrictJson(" 7 ", 0), IsOkAndHolds(7));
}

TEST(StrictJsonTest, DepthBeyondTheLimitIsRefused) {
  EXPECT_THAT(ParseStrictJson("[[[]]]", 3), IsOk());
  EXPECT_THAT(ParseStrictJson("[[{}]]", 2),
              StatusIs(kInvalid, HasSubstr("more than 2 deep")));
  EXPECT_THAT(ParseStrictJson(std::string(1'000'000, '['), 10),
              StatusIs(kInvalid, HasSubstr("deep")));
}

TEST(StrictJsonTest, KeySaidTwiceIsRefused) {
  EXPECT_THAT(ParseStrictJson(R"({"a":1,"b":{"a":1}})", 2), IsOk());
  EXPECT_THAT(ParseStrictJson(R"([{"a":1,"a":1}])", 2),
              StatusIs(kInvalid, HasSubstr("\"a\" is there twice")));
}

TEST(StrictJsonTest, WhatIsNotJsonIsRefusedWithItsPlace) {
  EXPECT_THAT(ParseStrictJson("[1,]", 2),
              StatusIs(kInvalid, HasSubstr("byte 4")));
  EXPECT_THAT(ParseStrictJson("", 2), StatusIs(kInvalid, HasSubstr("byte 1")));
  EXPECT_THAT(ParseStrictJson("{} {}", 2), StatusIs(kInvalid));
  EXPECT_THAT(ParseStrictJson("NaN", 2), StatusIs(kInvalid));
  EXPECT_THAT(ParseStrictJson("1e999", 2), StatusIs(kInvalid));
  EXPECT_THAT(ParseStrictJson("\"\xff\"", 2), StatusIs(kInvalid));
}

TEST(StrictJsonTest, IntegerBeyond64BitsIsNoInteger) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const nlohmann::json value,
      ParseStrictJson("123456789012345678901234567890", 1));

  EXPECT_TRUE(value.is_number_float());
}

}  // namespace
}  // namespace pipestage
