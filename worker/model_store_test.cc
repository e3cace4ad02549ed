#include "worker/model_store.h"

#include <fstream>

#include "base/error_info.h"
#include "base/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/testing/toy_pipeline.h"
#include "worker/testing/toy_stage.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ModelStoreTest : public ::testing::Test {
 protected:
  ModelKey Write(const ToyPipeline& pipeline) {
    return {pipeline.name, pipeline.version,
            *WriteToyPackage(repository_, pipeline)};
  }

  const std::string repository_ = ::testing::TempDir() + "/model_store_test";
  ToyStageLoader loader_;
  ModelStore store_{repository_, &loader_};
};

TEST_F(ModelStoreTest, LoadsTheStagesNamedAndTheLossWithTheLast) {
  const ModelKey key = Write(DigitPipeline(4));

  ASSERT_THAT(store_.Load(key, {1, 3}), IsOk());

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(const auto model, store_.Find(key));
  EXPECT_EQ(model->stage(StageIndex(0)), nullptr);
  EXPECT_NE(model->stage(StageIndex(1)), nullptr);
  EXPECT_NE(model->stage(StageIndex(3)), nullptr);
  EXPECT_NE(model->loss, nullptr);
}

TEST_F(ModelStoreTest, LoadingAgainKeepsWhatIsThere) {
  const ModelKey key = Write(DigitPipeline(4));
  ASSERT_THAT(store_.Load(key, {0, 1}), IsOk());
  const auto before = *store_.Find(key);

  ASSERT_THAT(store_.Load(key, {1}), IsOk());

  EXPECT_EQ(*store_.Find(key), before);
}

TEST_F(ModelStoreTest, OtherStagesReplaceThem) {
  const ModelKey key = Write(DigitPipeline(4));
  ASSERT_THAT(store_.Load(key, {0}), IsOk());

  ASSERT_THAT(store_.Load(key, {1}), IsOk());

  EXPECT_NE((*store_.Find(key))->stage(StageIndex(1)), nullptr);
}

TEST_F(ModelStoreTest, OneStageThatDoesNotLoadLoadsNone) {
  ToyPipeline pipeline = DigitPipeline(3);
  pipeline.name = "half";
  pipeline.stages[2].module = "no_such_module";
  const ModelKey key = Write(pipeline);

  EXPECT_THAT(store_.Load(key, {0, 1, 2}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("no_such_module")));

  EXPECT_EQ(GetReason(store_.Find(key).status()), reason::kModelNotLoaded);
}

TEST_F(ModelStoreTest, OtherContentOfTheSameVersionIsRefused) {
  ModelKey key = Write(DigitPipeline(2));
  const std::string on_disk = key.digest;
  key.digest = "cafe";

  const auto loaded = store_.Load(key, {0});

  EXPECT_THAT(loaded, StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr("cafe"), HasSubstr(on_disk))));
  EXPECT_EQ(GetReason(loaded.status()), reason::kModelBroken);
}

TEST_F(ModelStoreTest, OldAndNewContentLiveSideBySide) {
  ToyPipeline pipeline = DigitPipeline(2);
  pipeline.name = "swapped";
  const ModelKey old_key = Write(pipeline);
  ASSERT_THAT(store_.Load(old_key, {0, 1}), IsOk());

  pipeline.stages[0].params = R"({"s": 9})";
  const ModelKey new_key = Write(pipeline);
  ASSERT_THAT(store_.Load(new_key, {0, 1}), IsOk());

  EXPECT_THAT(store_.Find(old_key), IsOk());
  store_.Unload(old_key);
  EXPECT_THAT(store_.Find(old_key),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(store_.Find(new_key), IsOk());
}

TEST_F(ModelStoreTest, StageThatIsNotInThePackageIsRefused) {
  const ModelKey key = Write(DigitPipeline(2));

  EXPECT_THAT(store_.Load(key, {2}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("no stage 2, only 2")));
}

}  // namespace
}  // namespace pipestage
