#include "coordinator/model_ref.h"

#include "base/error_info.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(ModelRefTest, TextIsReadAndWritten) {
  for (const char* text : {"byte-lm", "byte-lm@1", "m@2024.01_a"}) {
    const auto ref = ParseModelRef(text);
    ASSERT_THAT(ref, IsOk());
    EXPECT_EQ(ToString(*ref), text);
    EXPECT_THAT(CheckModelRef(*ref), IsOk());
  }
}

TEST(ModelRefTest, EmptyPartsAreRefused) {
  for (const char* text : {"", "@1", "m@"}) {
    EXPECT_THAT(ParseModelRef(text), StatusIs(kInvalid)) << text;
  }
}

TEST(ModelRefTest, NamesThatLeaveTheRepositoryAreRefused) {
  for (const char* text : {"../etc", "m@../1", "m@1@2", "M", ".hidden"}) {
    const auto ref = ParseModelRef(text);
    ASSERT_THAT(ref, IsOk());
    const absl::Status status = CheckModelRef(*ref);
    EXPECT_THAT(status, StatusIs(kInvalid)) << text;
    EXPECT_EQ(GetReason(status), reason::kInvalidInput);
  }
}

}  // namespace
}  // namespace pipestage
