#include "package/open_beneath.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace pipestage {
namespace {

namespace fs = std::filesystem;

using OpenFunction = int (*)(const std::string&, const std::string&);

// Both ways of opening keep the same promise.
class OpenBeneathTest : public testing::TestWithParam<OpenFunction> {
 protected:
  OpenBeneathTest() {
    fs::remove_all(top_);
    fs::create_directories(root_ / "inner");
    fs::create_directories(top_ / "root-2");
    for (const fs::path& path :
         {root_ / "inner/file", top_ / "outside", top_ / "root-2/file"}) {
      std::ofstream(path) << "bytes";
    }
  }

  // 0 if the file opens, else errno.
  int Problem(const std::string& path) const {
    const int descriptor = GetParam()(root_, path);
    if (descriptor < 0) return errno;
    close(descriptor);
    return 0;
  }

  const fs::path top_ = fs::path(testing::TempDir()) / "open_beneath";
  const fs::path root_ = top_ / "root";
};

TEST_P(OpenBeneathTest, FilesBeneathAreOpened) {
  EXPECT_EQ(Problem("inner/file"), 0);
  EXPECT_EQ(Problem("inner/../inner/file"), 0);
}

TEST_P(OpenBeneathTest, PathsThatLeaveAreRefused) {
  EXPECT_EQ(Problem("../outside"), EXDEV);
  EXPECT_EQ(Problem("../root-2/file"), EXDEV);
}

TEST_P(OpenBeneathTest, LinksAreFollowedWithinButNotOut) {
  fs::create_symlink("inner/file", root_ / "within");
  fs::create_symlink("../outside", root_ / "out");
  fs::create_symlink(top_ / "outside", root_ / "absolute");
  fs::create_symlink(top_, root_ / "up");

  EXPECT_EQ(Problem("within"), 0);
  EXPECT_EQ(Problem("out"), EXDEV);
  EXPECT_EQ(Problem("absolute"), EXDEV);
  EXPECT_EQ(Problem("up/outside"), EXDEV);
}

TEST_P(OpenBeneathTest, WhatIsNotThereIsSaidToBeMissing) {
  EXPECT_EQ(Problem("inner/other"), ENOENT);
  fs::remove_all(root_);
  EXPECT_EQ(Problem("inner/file"), ENOENT);
}

TEST_P(OpenBeneathTest, FifoIsNotWaitedFor) {
  ASSERT_EQ(mkfifo((root_ / "fifo").c_str(), 0600), 0);

  EXPECT_EQ(Problem("fifo"), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, OpenBeneathTest,
                         testing::Values(&OpenBeneath, &OpenBeneathByName));

}  // namespace
}  // namespace pipestage
