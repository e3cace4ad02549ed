#include "schedule/schedule_registry.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedule/generators/dual_pipe_v.h"
#include "schedule/generators/gpipe.h"
#include "schedule/generators/interleaved_1f1b.h"
#include "schedule/generators/interleaved_zero_bubble.h"
#include "schedule/generators/looped_bfs.h"
#include "schedule/generators/one_f_one_b.h"
#include "schedule/generators/zbv_zero_bubble.h"

namespace pipestage {
namespace {

constexpr Schedule kSchedules[] = {
    {"1F1B", GenerateOneFOneB},
    {"GPipe", GenerateGPipe},
    {"Interleaved1F1B", GenerateInterleaved1F1B},
    {"LoopedBFS", GenerateLoopedBfs},
    {"InterleavedZeroBubble", GenerateInterleavedZeroBubble},
    {"ZBVZeroBubble", GenerateZbvZeroBubble, StagePlacement::kV, 2},
    {"DualPipeV", GenerateDualPipeV, StagePlacement::kV, 2},
};

}  // namespace

absl::Span<const Schedule> AvailableSchedules() { return kSchedules; }

absl::Status CheckShape(const Schedule& schedule, const ScheduleShape& shape) {
  if (schedule.stages_per_rank == 0 ||
      schedule.stages_per_rank == shape.stages_per_rank) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "schedule ", schedule.name, " takes ", schedule.stages_per_rank,
      " stages per rank, not ", shape.stages_per_rank));
}

absl::StatusOr<const Schedule*> FindSchedule(absl::string_view name) {
  for (const Schedule& schedule : kSchedules) {
    if (absl::EqualsIgnoreCase(schedule.name, name)) return &schedule;
  }
  const std::string available = absl::StrJoin(
      kSchedules, ", ", [](std::string* out, const Schedule& schedule) {
        absl::StrAppend(out, schedule.name);
      });
  return absl::InvalidArgumentError(
      absl::StrCat("unknown schedule \"", name, "\"; there are ", available));
}

}  // namespace pipestage
