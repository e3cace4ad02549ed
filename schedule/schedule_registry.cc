#include "schedule/schedule_registry.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedule/generators/gpipe.h"
#include "schedule/generators/interleaved_1f1b.h"
#include "schedule/generators/looped_bfs.h"
#include "schedule/generators/one_f_one_b.h"

namespace pipestage {
namespace {

constexpr Schedule kSchedules[] = {
    {"1F1B", GenerateOneFOneB},
    {"GPipe", GenerateGPipe},
    {"Interleaved1F1B", GenerateInterleaved1F1B},
    {"LoopedBFS", GenerateLoopedBfs},
};

// Schedules of PyTorch's that we know by name only.
constexpr absl::string_view kNotYetAvailable[] = {"InterleavedZeroBubble",
                                                  "ZBVZeroBubble", "DualPipeV"};

}  // namespace

absl::Span<const Schedule> AvailableSchedules() { return kSchedules; }

absl::StatusOr<const Schedule*> FindSchedule(absl::string_view name) {
  for (const Schedule& schedule : kSchedules) {
    if (absl::EqualsIgnoreCase(schedule.name, name)) return &schedule;
  }
  const std::string available = absl::StrJoin(
      kSchedules, ", ", [](std::string* out, const Schedule& schedule) {
        absl::StrAppend(out, schedule.name);
      });
  for (absl::string_view known : kNotYetAvailable) {
    if (absl::EqualsIgnoreCase(known, name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "schedule ", known, " is not available yet; there are ", available));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown schedule \"", name, "\"; there are ", available));
}

}  // namespace pipestage
