#include "package/size_expression.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

Sizes MakeSizes(int64_t rows, int64_t seq) {
  Sizes sizes;
  sizes.Set("rows", rows);
  sizes.Set("seq", seq);
  return sizes;
}

SizeExpression Parsed(absl::string_view text) {
  absl::StatusOr<SizeExpression> expression = SizeExpression::Parse(text);
  EXPECT_THAT(expression, IsOk());
  return expression.ok() ? *expression : SizeExpression::Constant(-1);
}

TEST(SizesTest, LaterValueReplacesTheEarlier) {
  Sizes sizes = MakeSizes(3, 128);
  sizes.Set("rows", 4);

  EXPECT_EQ(sizes.Get("rows"), 4);
  EXPECT_EQ(sizes.Get("width"), std::nullopt);
  EXPECT_EQ(sizes.ToString(), "rows=4, seq=128");
}

TEST(SizeExpressionTest, ValuesArePythons) {
  const Sizes sizes = MakeSizes(3, 17);
  const std::vector<std::pair<std::string, int64_t>> cases = {
      {"128", 128},
      {"rows", 3},
      {"rows*4+1", 13},
      {"1+rows*4", 13},
      {"(1+rows)*4", 16},
      {"(seq-1)//2", 8},
      {"seq//2", 8},
      {"seq%8", 1},
      {"seq-rows-1", 13},  // from the left
      {"seq//2//2", 4},
      {"seq//2*2", 16},
      {"100//seq%4", 1},
      {" ( seq + rows ) // 2 ", 10},
      {"-rows+seq", 14},
      {"-(rows-seq)", 14},
      {"--rows", 3},
      {"rows--1", 4},
      // Where C++ and Python part ways: the quotient is rounded down, the
      // remainder has the divisor's sign, and minus binds more than //.
      {"10+(-7)//2", 6},
      {"10+(-7)%3", 12},
      {"10+7%(-3)", 8},
      {"10+(-7)%(-3)", 9},
      {"10+(7//(-2))", 6},
      {"10-7//2", 7},
      {"10+-7//2", 6},
      {"0", 0},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(Parsed(text).Evaluate(sizes), IsOkAndHolds(expected)) << text;
  }
}

TEST(SizeExpressionTest, ConstantsAndNamesAreRecognised) {
  EXPECT_EQ(Parsed("128").constant(), 128);
  EXPECT_EQ(Parsed("128").name(), std::nullopt);
  EXPECT_EQ(Parsed("(rows)").name(), "rows");
  EXPECT_EQ(Parsed("rows").constant(), std::nullopt);
  EXPECT_EQ(Parsed("rows+0").name(), std::nullopt);
  EXPECT_EQ(SizeExpression::Constant(7).constant(), 7);
  EXPECT_EQ(SizeExpression::Constant(7).text(), "7");
}

TEST(SizeExpressionTest, MentionedNamesAreFoundWhole) {
  const SizeExpression expression = Parsed("(seq - 1)*rows_2 + seq");

  EXPECT_TRUE(expression.Mentions("seq"));
  EXPECT_TRUE(expression.Mentions("rows_2"));
  EXPECT_FALSE(expression.Mentions("rows"));
  EXPECT_THAT(expression.Names(), ElementsAre("seq", "rows_2"));
  EXPECT_EQ(expression.text(), "(seq-1)*rows_2+seq");
}

TEST(SizeExpressionTest, EqualMeansTheSameOperations) {
  EXPECT_EQ(Parsed(" rows * 2"), Parsed("(rows)*2"));
  EXPECT_EQ(Parsed("64"), SizeExpression::Constant(64));
  EXPECT_FALSE(Parsed("rows*2") == Parsed("2*rows"));
  EXPECT_FALSE(Parsed("?") == Parsed("0"));
}

TEST(SizeExpressionTest, DataDependentSizeHasNoValueBeforehand) {
  const SizeExpression unknown = Parsed("?");

  EXPECT_TRUE(unknown.is_data_dependent());
  EXPECT_FALSE(Parsed("rows").is_data_dependent());
  EXPECT_FALSE(unknown.Mentions("rows"));
  EXPECT_THAT(unknown.Evaluate(MakeSizes(1, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(SizeExpressionTest, MessagesOfParsingNamePositionAndExpectation) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "expected a number, a name or \"(\" at position 0, the end"},
      {"rows*", "a number, a name or \"(\" at position 5, the end"},
      {"rows/2", "an operator or the end at position 4, before \"/2\""},
      {"(rows", "an operator or \")\" at position 5"},
      {"rows)", "an operator or the end at position 4, before \")\""},
      {"1 2", "an operator or the end at position 2, before \"2\""},
      {"ro ws", "an operator or the end at position 3, before \"ws\""},
      {"4rows", "an operator or the end at position 1, before \"rows\""},
      {"007", "a number without leading zeros at position 0"},
      {"99999999999999999999", "a number below 2^63 at position 0"},
      {"rows+?", "a number, a name or \"(\" at position 5, before \"?\""},
      {"rows^2", "an operator or the end at position 4, before \"^2\""},
      {"+rows", "a number, a name or \"(\" at position 0"},
      {"1.5", "an operator or the end at position 1, before \".5\""},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(SizeExpression::Parse(text),
                StatusIs(kInvalid, HasSubstr(message)))
        << text;
  }
}

TEST(SizeExpressionTest, DeepNestingIsRefusedWithoutRecursingIntoIt) {
  const std::string deep(100'000, '(');
  const std::string minuses(100'000, '-');
  std::string chain = "1";
  for (int i = 0; i < 100; ++i) chain += "+1";

  for (const std::string& text : {deep, minuses, chain}) {
    EXPECT_THAT(SizeExpression::Parse(text),
                StatusIs(kInvalid, HasSubstr("more than 64 deep")));
  }
  EXPECT_THAT(
      SizeExpression::Parse(std::string(60, '(') + "1" + std::string(60, ')')),
      IsOk());
}

TEST(SizeExpressionTest, OverflowIsAnErrorAndNotANumber) {
  const Sizes sizes = MakeSizes(INT64_MAX, 2);

  for (const char* text :
       {"rows+1", "rows*seq", "-rows-2", "(-rows-1)//(-1)", "-(-rows-1)"}) {
    EXPECT_THAT(Parsed(text).Evaluate(sizes),
                StatusIs(kInvalid, HasSubstr("overflows")))
        << text;
  }
  EXPECT_THAT(Parsed("(-rows-1)%(-1)").Evaluate(sizes), IsOkAndHolds(0));
}

TEST(SizeExpressionTest, ErrorsOfEvaluationShowExpressionAndSizes) {
  const Sizes sizes = MakeSizes(3, 5);

  EXPECT_THAT(Parsed("rows-seq").Evaluate(sizes),
              StatusIs(kInvalid, "size \"rows-seq\" is -2 with rows=3, seq=5"));
  EXPECT_THAT(Parsed("rows*width").Evaluate(sizes),
              StatusIs(kInvalid,
                       "size \"rows*width\" with rows=3, seq=5: no "
                       "value for \"width\""));
  EXPECT_THAT(Parsed("rows//(seq-5)").Evaluate(sizes),
              StatusIs(kInvalid, HasSubstr("division by zero")));
  EXPECT_THAT(Parsed("rows%(seq-5)").Evaluate(sizes),
              StatusIs(kInvalid, HasSubstr("division by zero")));
}

}  // namespace
}  // namespace pipestage
