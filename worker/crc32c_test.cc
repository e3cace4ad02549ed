#include "worker/crc32c.h"

#include <string>

#include "gtest/gtest.h"

namespace pipestage {
namespace {

uint32_t OfText(const std::string& text) {
  return Crc32c(0, text.data(), text.size());
}

TEST(Crc32cTest, KnownValuesOfTheStandard) {
  EXPECT_EQ(OfText("123456789"), 0xe3069283u);
  EXPECT_EQ(OfText(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(OfText(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(OfText(""), 0u);
}

TEST(Crc32cTest, PiecesGiveWhatTheWholeGives) {
  const std::string text = "the pair stays in step, on every backend";

  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const uint32_t first = Crc32c(0, text.data(), cut);
    EXPECT_EQ(Crc32c(first, text.data() + cut, text.size() - cut),
              OfText(text));
  }
}

TEST(Crc32cTest, TableAndInstructionAgree) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    bytes.push_back(static_cast<char>(i * 37));
    EXPECT_EQ(Crc32c(7, bytes.data(), bytes.size()),
              Crc32cByTable(7, bytes.data(), bytes.size()));
  }
}

}  // namespace
}  // namespace pipestage
