#include "client/up/find_binary.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string MakeFolder(const std::string& name) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/", name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

void MakeProgram(const std::string& path) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << "#!/bin/sh\n";
  fs::permissions(path, fs::perms::owner_all);
}

TEST(FindBinaryTest, ItIsFoundInTheNeighbouringFolder) {
  const std::string root = MakeFolder("bazel");
  fs::create_directories(root + "/client");
  MakeProgram(root + "/worker/worker");

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      const std::string path,
      FindBinary(root + "/client", "worker", "--worker-binary"));

  EXPECT_TRUE(absl::EndsWith(path, "/bazel/worker/worker")) << path;
}

TEST(FindBinaryTest, ItIsFoundBesideUs) {
  const std::string root = MakeFolder("installed");
  MakeProgram(root + "/worker");

  EXPECT_THAT(FindBinary(root, "worker", "--worker-binary"), IsOk());
}

TEST(FindBinaryTest, AFolderOrAPlainFileOfTheNameIsNotIt) {
  const std::string root = MakeFolder("plain");
  fs::create_directories(root + "/worker");
  std::ofstream(root + "/coordinator") << "no program";

  EXPECT_THAT(FindBinary(root, "worker", "--worker-binary"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("plain/worker or "),
                             HasSubstr("name it with --worker-binary"))));
  EXPECT_THAT(FindBinary(root, "coordinator", "--c"),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(ExecutableFolderTest, IsWhereThisTestIs) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const std::string folder, ExecutableFolder());

  EXPECT_TRUE(fs::exists(folder + "/find_binary_test")) << folder;
}

}  // namespace
}  // namespace pipestage
