#include "package/model_package.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/sha256.h"
#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "package/testing/example_contract.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

namespace fs = std::filesystem;

constexpr auto kBroken = absl::StatusCode::kFailedPrecondition;
constexpr char kProgram[] = "stages/0.eval.pt2";

void WriteFile(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

// A repository of its own for each test, with byte-lm@1 in it.
class ModelPackageTest : public testing::Test {
 protected:
  ModelPackageTest()
      : repository_(
            fs::path(testing::TempDir()) /
            testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(repository_);
    for (const auto& [path, bytes] : bytes_) {
      json_["files"][path] = {{"sha256", Sha256Hex(bytes)},
                              {"bytes", bytes.size()}};
      WriteFile(directory() / path, bytes);
    }
    WriteContract();
  }

  fs::path directory() const { return repository_ / "byte-lm" / "1"; }
  void WriteContract() {
    WriteFile(directory() / "pipeline.json", json_.dump());
  }
  absl::StatusOr<std::shared_ptr<const ModelPackage>> Open() const {
    return ModelPackage::Open(repository_, "byte-lm", "1");
  }

  const fs::path repository_;
  const std::map<std::string, std::string> bytes_ = {
      {kProgram, "program"},
      {"stages/0.step.pt2", "step"},
      {"weights/0.safetensors", ""}};
  nlohmann::json json_ = ExampleContract();
};

TEST_F(ModelPackageTest, ContractAndDigestAreThoseOfTheFile) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto package, Open());

  EXPECT_EQ(package->contract().name, "byte-lm");
  EXPECT_EQ(package->contract().stages.size(), 2);
  EXPECT_EQ(package->digest(), Sha256Hex(json_.dump()));
  EXPECT_EQ(package->directory(), directory().string());
  EXPECT_EQ(package->ToString(), "byte-lm@1");
}

TEST_F(ModelPackageTest, VerifiedFilesAreMapped) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto package, Open());

  for (const auto& [path, bytes] : bytes_) {
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto file, package->OpenFile(path));
    EXPECT_EQ(file->bytes(), bytes);
    EXPECT_EQ(file->path(), (directory() / path).string());
  }
}

TEST_F(ModelPackageTest, MissingPackagesAreNotFound) {
  for (const auto& [name, version] :
       std::vector<std::pair<std::string, std::string>>{
           {"byte-lm", "2"}, {"other", "1"}, {"byte-lm", "1.0"}}) {
    const absl::Status status =
        ModelPackage::Open(repository_, name, version).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound,
                                 AllOf(HasSubstr(name + "@" + version),
                                       HasSubstr("pipeline.json"))));
    EXPECT_EQ(GetReason(status), reason::kModelNotFound);
  }
  fs::remove(directory() / "pipeline.json");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ModelPackageTest, NamesThatCouldLeaveTheRepositoryAreInvalid) {
  for (const char* name : {"..", "", "a/b", "Byte", ".hidden", "a b", "-x"}) {
    EXPECT_THAT(ModelPackage::Open(repository_, name, "1"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("does not match")));
    EXPECT_THAT(ModelPackage::Open(repository_, "byte-lm", name),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("does not match")));
  }
}

TEST_F(ModelPackageTest, BrokenContractNamesPackageFileAndPlace) {
  json_["stages"][1]["inputs"][0]["dtype"] = "float31";
  WriteContract();

  const absl::Status status = Open().status();

  EXPECT_THAT(status, StatusIs(kBroken, StartsWith("model byte-lm@1: "
                                                   "pipeline.json: stages[1]."
                                                   "inputs[0].dtype: ")));
  EXPECT_EQ(GetReason(status), reason::kModelBroken);
}

TEST_F(ModelPackageTest, PackageThatSaysItIsAnotherIsBroken) {
  json_["version"] = "2";
  WriteContract();

  EXPECT_THAT(Open(), StatusIs(kBroken, HasSubstr("says it is byte-lm@2")));
}

TEST_F(ModelPackageTest, FileOfAnotherSizeIsBroken) {
  WriteFile(directory() / kProgram, "programme");
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto package, Open());

  const absl::Status status = package->OpenFile(kProgram).status();

  EXPECT_THAT(status, StatusIs(kBroken,
                               "model byte-lm@1: stages/0.eval.pt2: "
                               "has 9 bytes; pipeline.json says 7"));
  EXPECT_EQ(GetReason(status), reason::kModelBroken);
  EXPECT_EQ(GetErrorInfo(status)->metadata().at("file"), kProgram);
}

TEST_F(ModelPackageTest, FileWithAChangedByteIsBroken) {
  WriteFile(directory() / kProgram, "pr0gram");
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto package, Open());

  EXPECT_THAT(package->OpenFile(kProgram),
              StatusIs(kBroken, AllOf(HasSubstr(Sha256Hex("pr0gram")),
                                      HasSubstr(Sha256Hex("program")))));
}

TEST_F(ModelPackageTest, MissingFileIsBroken) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto package, Open());
  fs::remove(directory() / kProgram);

  EXPECT_THAT(package->OpenFile(kProgram),
              StatusIs(kBroken, HasSubstr("stages/0.eval.pt2: cannot be "
                                          "opened: No such file")));
}

TEST_F(ModelPackageTest, DirectoryInPlaceOfAFileIsBroken) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto package, Open());
  fs::remove(directory() / kProgram);
  fs::create_directory(directory() / kProgram);

  EXPECT_THAT(package->OpenFile(kProgram),
              StatusIs(kBroken, HasSubstr("not a regular file")));
}

TEST_F(ModelPackageTest, FileThatTheContractDoesNotNameIsRefused) {
  WriteFile(directory() / "extra", "x");
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto package, Open());

  for (const char* path : {"extra", "pipeline.json", "../1/extra", ""}) {
    EXPECT_THAT(package->OpenFile(path),
                StatusIs(kBroken, HasSubstr("not among the files")));
  }
}

TEST_F(ModelPackageTest, LinkThatLeavesThePackageIsRefusedThoughItsBytesMatch) {
  WriteFile(repository_ / "elsewhere", "program");
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto package, Open());

  for (const fs::path& target :
       {repository_ / "elsewhere", fs::path("../../../elsewhere")}) {
    fs::remove(directory() / kProgram);
    fs::create_symlink(target, directory() / kProgram);
    EXPECT_THAT(package->OpenFile(kProgram),
                StatusIs(kBroken, HasSubstr("leads out of the package")));
  }
}

TEST_F(ModelPackageTest, LinkedDirectoryThatLeavesThePackageIsRefused) {
  WriteFile(repository_ / "stages" / "0.eval.pt2", "program");
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto package, Open());
  fs::remove_all(directory() / "stages");
  fs::create_symlink(repository_ / "stages", directory() / "stages");

  EXPECT_THAT(package->OpenFile(kProgram),
              StatusIs(kBroken, HasSubstr("leads out of the package")));
}

TEST_F(ModelPackageTest, LinkWithinThePackageIsFollowed) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto package, Open());
  fs::rename(directory() / kProgram, directory() / "blob");
  fs::create_symlink("../blob", directory() / kProgram);

  EXPECT_THAT(package->OpenFile(kProgram), IsOk());
}

TEST_F(ModelPackageTest, PackagesAreListedNewestFirst) {
  for (const char* path :
       {"byte-lm/9", "byte-lm/10", "a-model/v2", "a-model/v10", "a-model/v1",
        "Upper/1", ".tmp/1", "a-model/.tmp-3"}) {
    WriteFile(repository_ / path / "pipeline.json", "{}");
  }
  fs::create_directories(repository_ / "a-model" / "empty");
  WriteFile(repository_ / "file", "x");

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const std::vector<PackageListing> packages,
                                 ListPackages(repository_));

  std::vector<std::string> listed;
  for (const PackageListing& package : packages) {
    listed.push_back(package.name + "@" + package.version);
  }
  EXPECT_THAT(listed, ElementsAre("a-model@v10", "a-model@v2", "a-model@v1",
                                  "byte-lm@10", "byte-lm@9", "byte-lm@1"));
}

TEST_F(ModelPackageTest, EmptyAndMissingRepositories) {
  fs::create_directories(repository_ / "empty");

  EXPECT_THAT(ListPackages(repository_ / "empty"), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(ListPackages(repository_ / "missing"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("missing")));
}

TEST(VersionLessTest, OrderIsNaturalAndTotal) {
  const std::vector<std::string> ascending = {"0",
                                              "01",
                                              "1",
                                              "1-1",
                                              "1.0",
                                              "1.0-rc1",
                                              "1.0.0",
                                              "1.2",
                                              "1.10",
                                              "1a",
                                              "2",
                                              "9",
                                              "10",
                                              "99999999999999999999",
                                              "100000000000000000000",
                                              "v2",
                                              "v10",
                                              "v10.1"};
  for (size_t i = 0; i < ascending.size(); ++i) {
    for (size_t j = 0; j < ascending.size(); ++j) {
      EXPECT_EQ(VersionLess(ascending[i], ascending[j]), i < j)
          << ascending[i] << " " << ascending[j];
    }
  }
}

TEST(ValidNameTest, NamesMatchTheirPattern) {
  for (const char* name : {"a", "0", "byte-lm", "1.0_rc-1", "a..b"}) {
    EXPECT_TRUE(IsValidName(name)) << name;
  }
  for (const char* name : {"", ".", "..", "A", "a/b", "_a", "ä", "a "}) {
    EXPECT_FALSE(IsValidName(name)) << name;
  }
  EXPECT_TRUE(IsValidName(std::string(128, 'a')));
  EXPECT_FALSE(IsValidName(std::string(129, 'a')));
  EXPECT_FALSE(IsValidName(absl::string_view("a\0", 2)));
}

}  // namespace
}  // namespace pipestage
