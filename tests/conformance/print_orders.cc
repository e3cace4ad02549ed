// Prints orders as the compiler makes them, for a test in Python to compare.
//
// Each line of standard input is "SCHEDULE P V M compute|lowered"; each answer is
// the rows as CSV and an empty line, or a line "error: ..." and an empty line.

#include <iostream>
#include <sstream>
#include <string>

#include "schedule/compiler.h"
#include "schedule/schedule_registry.h"

namespace pipestage {
namespace {

absl::StatusOr<ActionRows> OrderOf(const PlanRequest& request,
                                   const std::string& level) {
  absl::StatusOr<std::shared_ptr<const Plan>> plan = CompilePlan(request);
  if (!plan.ok()) return plan.status();
  if (level == "lowered") return (*plan)->ranks;
  return (*FindSchedule(request.schedule))
      ->generate({request.num_ranks, request.stages_per_rank,
                  request.num_microbatches});
}

void Answer(const std::string& line) {
  std::istringstream words(line);
  PlanRequest request;
  request.mode = PlanMode::kStep;
  request.sharded = true;
  std::string level;
  words >> request.schedule >> request.num_ranks >> request.stages_per_rank >>
      request.num_microbatches >> level;
  const absl::StatusOr<ActionRows> rows = OrderOf(request, level);
  if (rows.ok()) {
    std::cout << ToCsv(*rows) << "\n";
  } else {
    std::cout << "error: " << rows.status().message() << "\n\n";
  }
}

}  // namespace
}  // namespace pipestage

int main() {
  std::string line;
  while (std::getline(std::cin, line)) pipestage::Answer(line);
  return 0;
}
