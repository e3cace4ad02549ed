#include "base/mapped_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

std::string WriteFile(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(MappedFileTest, BytesAreThoseOfTheFile) {
  const std::string path = WriteFile("bytes", std::string("a\0b\n", 4));

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto file, MappedFile::Open(path));

  EXPECT_EQ(file->bytes(), absl::string_view("a\0b\n", 4));
  EXPECT_EQ(file->path(), path);
}

TEST(MappedFileTest, EmptyFileIsEmpty) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto file,
                                 MappedFile::Open(WriteFile("empty", "")));

  EXPECT_EQ(file->size(), 0);
  EXPECT_EQ(file->bytes(), "");
}

TEST(MappedFileTest, MappingOutlivesTheNameOfTheFile) {
  const std::string path = WriteFile("removed", "still here");
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto file, MappedFile::Open(path));

  std::filesystem::remove(path);

  EXPECT_EQ(file->bytes(), "still here");
}

TEST(MappedFileTest, MissingFileIsNotFound) {
  const std::string path = testing::TempDir() + "/no-such-file";

  EXPECT_THAT(MappedFile::Open(path),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
}

TEST(MappedFileTest, DirectoriesAndPipesAreRefusedWithoutWaiting) {
  const std::string pipe = testing::TempDir() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);

  for (const std::string& path : {testing::TempDir(), pipe}) {
    EXPECT_THAT(MappedFile::Open(path),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("not a regular file")));
  }
}

TEST(MappedFileTest, UnreadableFileIsPermissionDenied) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const std::string path = WriteFile("secret", "x");
  ASSERT_EQ(chmod(path.c_str(), 0), 0);

  EXPECT_THAT(MappedFile::Open(path),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(path)));
}

}  // namespace
}  // namespace pipestage
