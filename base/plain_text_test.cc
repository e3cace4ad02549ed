#include "base/plain_text.h"

#include "gtest/gtest.h"

namespace pipestage {
namespace {

TEST(PlainTextTest, WellFormedTextStaysAsItIs) {
  for (const char* text :
       {"", "plain", "é", "€", "\xF0\x9F\x98\x80", "\xED\x9F\xBF",
        "\xEE\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(ToUtf8(text), text);
  }
  EXPECT_EQ(ToUtf8(absl::string_view("a\0b", 3)), std::string("a\0b", 3));
}

TEST(PlainTextTest, EachByteThatIsNotUtf8IsReplaced) {
  EXPECT_EQ(ToUtf8("a\xFF"
                   "b"),
            "a\uFFFDb");
  EXPECT_EQ(ToUtf8("\x80"), "\uFFFD");
  EXPECT_EQ(ToUtf8("\xC3"), "\uFFFD");            // cut short
  EXPECT_EQ(ToUtf8("\xC0\xAF"), "\uFFFD\uFFFD");  // overlong
  EXPECT_EQ(ToUtf8("\xE0\x80\xAF"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(ToUtf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // surrogate
  EXPECT_EQ(ToUtf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(ToUtf8("\xC3(é"), "\uFFFD(é");
}

TEST(PlainTextTest, NoCharacterIsCutInTwo) {
  EXPECT_EQ(ToUtf8("aé", 3), "aé");
  EXPECT_EQ(ToUtf8("aé", 2), "a");
  EXPECT_EQ(ToUtf8("a\xFF", 3), "a");
  EXPECT_EQ(ToUtf8("abc", 0), "");
}

TEST(OneLineTest, ControlCharactersAreWrittenOut) {
  EXPECT_EQ(OneLine("a\nb\tc\x1b[31m\x7f", 100), "a\\nb\\tc\\x1b[31m\\x7f");
  EXPECT_EQ(OneLine("plain \u20AC", 100), "plain \u20AC");
}

TEST(OneLineTest, WhatIsCutOffIsCounted) {
  EXPECT_EQ(OneLine(std::string(30'000'000, 'x'), 3),
            "xxx ... (30000000 bytes)");
}

TEST(ShortenedForTrailerTest, EachByteBeyondAsciiCountsThreefold) {
  EXPECT_EQ(ShortenedForTrailer("abcdef", 6), "abcdef");
  EXPECT_EQ(ShortenedForTrailer("abcdefg", 6), "abcdef ...");
  EXPECT_EQ(ShortenedForTrailer("100%", 6), "100%");
  EXPECT_EQ(ShortenedForTrailer("1000%", 6), "1000 ...");
  EXPECT_EQ(ShortenedForTrailer("\u20AC\u20AC", 17), "\u20AC ...");
  EXPECT_EQ(ShortenedForTrailer("\u20AC\u20AC", 18), "\u20AC\u20AC");
}

}  // namespace
}  // namespace pipestage
