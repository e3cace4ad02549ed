#ifndef PIPESTAGE_SCHEDULE_SCHEDULE_REGISTRY_H_
#define PIPESTAGE_SCHEDULE_SCHEDULE_REGISTRY_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schedule/action.h"
#include "schedule/generators/schedule_shape.h"
#include "schedule/placement.h"

namespace pipestage {

struct Schedule {
  absl::string_view name;  // canonical: PyTorch's spelling
  // Rows of compute, for any shape whose numbers are at least 1 and which
  // CheckShape lets pass.
  ActionRows (*generate)(const ScheduleShape& shape);
  StagePlacement placement = StagePlacement::kLoop;
  int stages_per_rank = 0;  // the only number it takes; 0: any
};

// InvalidArgument, with the number it takes, if the schedule cannot be
// generated for this shape.
absl::Status CheckShape(const Schedule& schedule, const ScheduleShape& shape);

// In the order in which people should read them.
absl::Span<const Schedule> AvailableSchedules();

// By name, in any case. InvalidArgument names those there are. Lives for ever.
absl::StatusOr<const Schedule*> FindSchedule(absl::string_view name);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_SCHEDULE_REGISTRY_H_
