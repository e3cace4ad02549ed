#ifndef PIPESTAGE_SCHEDULE_SCHEDULE_REGISTRY_H_
#define PIPESTAGE_SCHEDULE_SCHEDULE_REGISTRY_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schedule/action.h"
#include "schedule/generators/schedule_shape.h"

namespace pipestage {

struct Schedule {
  absl::string_view name;  // canonical: PyTorch's spelling
  // Rows of compute, for any shape whose numbers are at least 1.
  ActionRows (*generate)(const ScheduleShape& shape);
};

// In the order in which people should read them.
absl::Span<const Schedule> AvailableSchedules();

// By name, in any case. InvalidArgument names those there are, and says so if
// it is one of PyTorch's that is yet to come. Lives for ever.
absl::StatusOr<const Schedule*> FindSchedule(absl::string_view name);

}  // namespace pipestage

#endif  // PIPESTAGE_SCHEDULE_SCHEDULE_REGISTRY_H_
