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

TEST(ScheduleRegistryTest, PyTorchsSchedulesToComeAreSaidToBeSo) {
  for (const char* name :
       {"InterleavedZeroBubble", "zbvzerobubble", "DualPipeV"}) {
    EXPECT_THAT(FindSchedule(name),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("is not available yet")));
  }
}

}  // namespace
}  // namespace pipestage
