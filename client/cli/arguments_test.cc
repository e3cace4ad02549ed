#include "client/cli/arguments.h"

#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

TEST(ParseModelRefTest, TheVersionMayBeLeftOut) {
  EXPECT_EQ(ParseModelRef("byte-lm")->version(), "");
  EXPECT_EQ(ParseModelRef("byte-lm@2.1")->name(), "byte-lm");
  EXPECT_EQ(ParseModelRef("byte-lm@2.1")->version(), "2.1");
  EXPECT_EQ(FormatModelRef(*ParseModelRef("byte-lm@2.1")), "byte-lm@2.1");
  EXPECT_EQ(FormatModelRef(*ParseModelRef("byte-lm")), "byte-lm");
}

TEST(ParseModelRefTest, EmptyPartsAreRefused) {
  for (const char* text : {"", "@", "@1", "name@"}) {
    EXPECT_THAT(ParseModelRef(text),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
    EXPECT_NE(CheckModelRef(text), "");
  }
}

TEST(ParseNamedFileTest, TheFirstEqualsSignDivides) {
  EXPECT_EQ(ParseNamedFile("x=a=b.npy")->name, "x");
  EXPECT_EQ(ParseNamedFile("x=a=b.npy")->file, "a=b.npy");
  EXPECT_EQ(CheckNamedFile("x=f.safetensors:y"), "");
}

TEST(ParseNamedFileTest, EmptyPartsAreRefused) {
  for (const char* text : {"", "x", "x=", "=f"}) {
    EXPECT_THAT(ParseNamedFile(text),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
  }
}

}  // namespace
}  // namespace pipestage
