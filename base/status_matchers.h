#ifndef PIPESTAGE_BASE_STATUS_MATCHERS_H_
#define PIPESTAGE_BASE_STATUS_MATCHERS_H_

// Matchers for absl::Status and absl::StatusOr, for tests. There is no "is not
// OK" on purpose: a test names the code it expects.

#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"

namespace pipestage {

inline const absl::Status& GetStatus(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& statusor) {
  return statusor.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).ok();
}

MATCHER_P(StatusIs, code, "has status code " + absl::StatusCodeToString(code)) {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).code() == code;
}

// `message` is a matcher on the message, for example HasSubstr("stage 2").
MATCHER_P2(StatusIs, code, message,
           "has status code " + absl::StatusCodeToString(code) +
               " and a message that " +
               ::testing::DescribeMatcher<std::string>(message, negation)) {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).code() == code &&
         ::testing::ExplainMatchResult(
             message, std::string(GetStatus(arg).message()), result_listener);
}

MATCHER_P(IsOkAndHolds, value, "") {
  if (!arg.ok()) {
    *result_listener << arg.status().ToString();
    return false;
  }
  return ::testing::ExplainMatchResult(value, *arg, result_listener);
}

#define PIPESTAGE_ASSERT_OK_AND_ASSIGN(lhs, expr) \
  PIPESTAGE_ASSERT_OK_AND_ASSIGN_IMPL(            \
      PIPESTAGE_TEST_CONCAT(pipestage_statusor_, __LINE__), lhs, expr)
#define PIPESTAGE_ASSERT_OK_AND_ASSIGN_IMPL(statusor, lhs, expr) \
  auto statusor = (expr);                                        \
  ASSERT_TRUE(statusor.ok()) << statusor.status();               \
  lhs = *std::move(statusor)
#define PIPESTAGE_TEST_CONCAT(a, b) PIPESTAGE_TEST_CONCAT_IMPL(a, b)
#define PIPESTAGE_TEST_CONCAT_IMPL(a, b) a##b

}  // namespace pipestage

#endif  // PIPESTAGE_BASE_STATUS_MATCHERS_H_
