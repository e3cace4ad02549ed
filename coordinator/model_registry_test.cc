#include "coordinator/model_registry.h"

#include <optional>

#include "base/error_info.h"
#include "base/status_matchers.h"
#include "coordinator/testing/test_models.h"
#include "coordinator/testing/test_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::ModelRef Ref(const std::string& name, const std::string& version = "") {
  v1::ModelRef ref;
  ref.set_name(name);
  ref.set_version(version);
  return ref;
}

class ModelRegistryTest : public ::testing::Test {
 protected:
  ModelRegistryTest() : registry_({repository_, /*num_workers=*/2}) {
    WriteTestModel(repository_, {.name = "m", .version = "1"});
    WriteTestModel(repository_, {.name = "m", .version = "10"});
    WriteTestModel(repository_, {.name = "m", .version = "9"});
    view_.Attach(0);
    view_.Attach(1);
    registry_.OnViewChanged(view_.Make());
  }

  // Starts a load; its answer comes into `answer`.
  void Load(const v1::ModelRef& ref) {
    answer_.reset();
    registry_.Load(ref, 0, [this](absl::StatusOr<v1::Model> model) {
      answer_ = std::move(model);
    });
  }

  // Answers the LoadStages that the worker at `rank` was sent last.
  void Answer(int rank, absl::Status error = absl::OkStatus()) {
    for (const auto& message : view_.connection(rank).Take()) {
      if (!message.has_load_stages()) continue;
      v1::StagesLoaded loaded;
      loaded.set_request_id(message.load_stages().request_id());
      if (!error.ok()) *loaded.mutable_error() = ToRpcStatus(error);
      registry_.OnStagesLoaded(view_.at(rank), loaded);
    }
  }

  void LoadEverywhere(const v1::ModelRef& ref) {
    Load(ref);
    Answer(0);
    Answer(1);
    ASSERT_TRUE(answer_.has_value());
    ASSERT_THAT(*answer_, IsOk());
  }

  const std::string repository_ = MakeTempDir();
  TestView view_{2};
  ModelRegistry registry_;
  std::optional<absl::StatusOr<v1::Model>> answer_;
};

TEST_F(ModelRegistryTest, LoadIsDoneWhenEveryOwnerHasItsStages) {
  Load(Ref("m", "1"));
  Answer(0);
  EXPECT_FALSE(answer_.has_value());
  EXPECT_EQ(registry_.Get(Ref("m", "1"))->state(), v1::LOADING);

  Answer(1);

  ASSERT_TRUE(answer_.has_value());
  ASSERT_THAT(*answer_, IsOk());
  EXPECT_EQ((*answer_)->state(), v1::SERVING);
  EXPECT_EQ((*answer_)->workers(), 2);
  EXPECT_EQ((*answer_)->stages(1).worker(), "w1");
  EXPECT_THAT(registry_.StagesAt(Rank(1)), ElementsAre("m@1/1"));
}

TEST_F(ModelRegistryTest, UnsetVersionIsTheNewest) {
  LoadEverywhere(Ref("m"));
  EXPECT_EQ((*answer_)->version(), "10");

  LoadEverywhere(Ref("m", "9"));

  EXPECT_EQ(registry_.PinForCall(Ref("m")).value()->contract().version, "10");
  EXPECT_EQ(registry_.PinForCall(Ref("m", "9")).value()->contract().version,
            "9");
}

TEST_F(ModelRegistryTest, FailureOfOneOwnerUnloadsTheOthers) {
  LoadEverywhere(Ref("m", "1"));
  Load(Ref("m", "10"));
  Answer(0);

  Answer(1, absl::FailedPreconditionError("weights/1 is torn"));

  ASSERT_TRUE(answer_.has_value());
  EXPECT_THAT(*answer_, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("w1 (rank 1): weights/1 is torn")));
  const auto sent = view_.connection(0).Take();
  ASSERT_EQ(sent.size(), 1);
  EXPECT_EQ(sent[0].unload_model().version(), "10");
  EXPECT_THAT(view_.connection(1).Take(), IsEmpty());
  EXPECT_EQ(registry_.Get(Ref("m", "10"))->state(), v1::AVAILABLE);
  EXPECT_EQ(registry_.PinForCall(Ref("m")).value()->contract().version, "1");
}

TEST_F(ModelRegistryTest, LoadingWhatIsLoadedChangesNothing) {
  LoadEverywhere(Ref("m", "1"));

  Load(Ref("m", "1"));

  ASSERT_TRUE(answer_.has_value());
  EXPECT_THAT(*answer_, IsOk());
  EXPECT_THAT(view_.connection(0).Take(), IsEmpty());
}

TEST_F(ModelRegistryTest, TwoLoadsOfOneVersionAreOne) {
  Load(Ref("m", "1"));
  std::optional<absl::StatusOr<v1::Model>> second;
  registry_.Load(Ref("m", "1"), 0,
                 [&](absl::StatusOr<v1::Model> model) { second = model; });

  Answer(0);
  Answer(1);

  ASSERT_TRUE(answer_.has_value() && second.has_value());
  EXPECT_THAT(*second, IsOk());
}

TEST_F(ModelRegistryTest, MissingWorkersAreCountedAndNamed) {
  view_.Detach(1);
  registry_.OnViewChanged(view_.Make(Membership::State::kWaiting));

  Load(Ref("m", "1"));

  ASSERT_TRUE(answer_.has_value());
  EXPECT_THAT(*answer_, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("lacks 1 of 2 workers: rank 1")));
  EXPECT_EQ(GetReason(answer_->status()), reason::kWorkersMissing);
  EXPECT_THAT(view_.connection(0).Take(), IsEmpty());
}

TEST_F(ModelRegistryTest, WorkerLostDuringALoadFailsIt) {
  Load(Ref("m", "1"));
  Answer(0);
  view_.Detach(1);

  registry_.OnViewChanged(view_.Make(Membership::State::kWaiting));

  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(GetReason(answer_->status()), reason::kWorkerLost);
  const auto sent = view_.connection(0).Take();
  ASSERT_EQ(sent.size(), 1);
  EXPECT_TRUE(sent[0].has_unload_model());
}

TEST_F(ModelRegistryTest, ReturningWorkerGetsTheModelBeforeItIsServedAgain) {
  LoadEverywhere(Ref("m", "1"));
  view_.Detach(1);
  registry_.OnViewChanged(view_.Make(Membership::State::kWaiting));
  EXPECT_EQ(registry_.Get(Ref("m", "1"))->state(), v1::INTERRUPTED);
  EXPECT_THAT(registry_.PinForCall(Ref("m")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("lacks 1 of 2")));
  EXPECT_THAT(registry_.Serving(), IsEmpty());

  view_.Attach(1);
  registry_.OnViewChanged(view_.Make(Membership::State::kReady, 2));
  EXPECT_TRUE(registry_.IsRestoring());
  EXPECT_THAT(registry_.PinForCall(Ref("m")),
              StatusIs(absl::StatusCode::kUnavailable));
  Answer(1);

  EXPECT_FALSE(registry_.IsRestoring());
  EXPECT_THAT(registry_.PinForCall(Ref("m")), IsOk());
  EXPECT_THAT(view_.connection(0).Take(), IsEmpty());
}

TEST_F(ModelRegistryTest, FailedReloadIsSaidAndALoadTriesAgain) {
  LoadEverywhere(Ref("m", "1"));
  view_.Attach(1);
  registry_.OnViewChanged(view_.Make(Membership::State::kReady, 2));
  Answer(1, absl::FailedPreconditionError("no such file"));
  EXPECT_FALSE(registry_.IsRestoring());
  EXPECT_THAT(registry_.PinForCall(Ref("m")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("no such file")));

  Load(Ref("m", "1"));
  Answer(1);

  ASSERT_TRUE(answer_.has_value());
  EXPECT_THAT(*answer_, IsOk());
  EXPECT_THAT(registry_.PinForCall(Ref("m")), IsOk());
}

TEST_F(ModelRegistryTest, UnloadWaitsForTheCallsThatUseTheVersion) {
  LoadEverywhere(Ref("m", "1"));
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(ModelRegistry::Pin pin,
                                 registry_.PinForCall(Ref("m")));
  std::optional<absl::Status> unloaded;

  registry_.Unload(Ref("m", "1"),
                   [&](const absl::Status& status) { unloaded = status; });
  EXPECT_FALSE(unloaded.has_value());
  EXPECT_EQ(registry_.Get(Ref("m", "1"))->state(), v1::UNLOADING);
  EXPECT_THAT(registry_.PinForCall(Ref("m")),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(view_.connection(0).Take(), IsEmpty());
  pin.Release();

  ASSERT_TRUE(unloaded.has_value());
  EXPECT_THAT(*unloaded, IsOk());
  const auto sent = view_.connection(1).Take();
  ASSERT_EQ(sent.size(), 1);
  EXPECT_EQ(sent[0].unload_model().model(), "m");
}

TEST_F(ModelRegistryTest, WhatIsNotThereIsToldFromWhatIsNotLoaded) {
  const auto not_loaded = registry_.PinForCall(Ref("m", "1"));
  const auto not_there = registry_.PinForCall(Ref("nowhere"));
  const auto no_name = registry_.PinForCall(Ref("../m"));

  EXPECT_EQ(GetReason(not_loaded.status()), reason::kModelNotLoaded);
  EXPECT_THAT(not_there, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(GetReason(not_there.status()), reason::kModelNotFound);
  EXPECT_THAT(no_name, StatusIs(absl::StatusCode::kInvalidArgument));
  std::optional<absl::Status> unloaded;
  registry_.Unload(Ref("m", "1"), [&](auto status) { unloaded = status; });
  EXPECT_THAT(*unloaded, StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ModelRegistryTest, ListGoesThroughTheRepositoryPageByPage) {
  LoadEverywhere(Ref("m", "9"));
  v1::ListModelsRequest request;
  request.set_page_size(2);

  const auto first = registry_.List(request);
  ASSERT_THAT(first, IsOk());
  request.set_page_token(first->next_page_token());
  const auto second = registry_.List(request);

  ASSERT_THAT(second, IsOk());
  ASSERT_EQ(first->models_size(), 2);
  EXPECT_EQ(first->models(0).version(), "10");
  EXPECT_EQ(first->models(0).state(), v1::AVAILABLE);
  EXPECT_EQ(first->models(1).state(), v1::SERVING);
  ASSERT_EQ(second->models_size(), 1);
  EXPECT_EQ(second->models(0).version(), "1");
  EXPECT_EQ(second->next_page_token(), "");
}

TEST_F(ModelRegistryTest, OlderViewsThatComeLateAreIgnored) {
  LoadEverywhere(Ref("m", "1"));
  view_.Detach(1);
  const auto older = view_.Make(Membership::State::kWaiting);
  view_.Attach(1);
  registry_.OnViewChanged(view_.Make(Membership::State::kReady, 2));
  Answer(1);

  registry_.OnViewChanged(older);

  EXPECT_THAT(registry_.PinForCall(Ref("m")), IsOk());
}

}  // namespace
}  // namespace pipestage
