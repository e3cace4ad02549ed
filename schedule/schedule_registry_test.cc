#include "schedule/schedule_registry.h"

#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ScheduleRegistryTest, NamesAreFoundInAnyCase) {
  for (const char* name :
       {"Interleaved1F1B", "interleaved1f1b", "INTERLEAVED1F1B"}) {
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(const Schedule* schedule,
                                   FindSchedule(name));

    EXPECT_EQ(schedule->name, "Interleaved1F1B");
  }
}

TEST(ScheduleRegistryTest, EveryScheduleIsFoundByItsOwnName) {
  for (const Schedule& schedule : AvailableSchedules()) {
    EXPECT_THAT(FindSchedule(schedule.name), IsOkAndHolds(&schedule));
  }
}

TEST(ScheduleRegistryTest, AnUnknownNameIsAnsweredWithThoseThereAre) {
  EXPECT_THAT(
      FindSchedule("1F1C"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("\"1F1C\""),
                     HasSubstr("1F1B, GPipe, Interleaved1F1B, LoopedBFS"))));
}

TEST(ScheduleRegistryTest, AllOfPyTorchsSchedulesAreThere) {
  for (const char* name :
       {"GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS",
        "InterleavedZeroBubble", "zbvzerobubble", "DualPipeV"}) {
    EXPECT_THAT(FindSchedule(name), IsOk()) << name;
  }
}

TEST(ScheduleRegistryTest, VSchedulesTakeTwoStagesPerRankAndSaySo) {
  for (const char* name : {"ZBVZeroBubble", "DualPipeV"}) {
    PIPESTAGE_ASSERT_OK_AND_ASSIGN(const Schedule* schedule,
                                   FindSchedule(name));

    EXPECT_THAT(CheckShape(*schedule, {4, 2, 1}), IsOk());
    EXPECT_THAT(CheckShape(*schedule, {4, 3, 1}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("takes 2 stages per rank, not 3")));
  }
}

}  // namespace
}  // namespace pipestage
