#include "schedule/best_order.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "schedule/generators/depth_first.h"
#include "schedule/passes/forward_only.h"
#include "schedule/passes/relocate.h"
#include "schedule/plan.h"
#include "schedule/schedule_registry.h"
#include "schedule/simulator.h"

namespace pipestage {
namespace {

using Score = std::pair<int64_t, int64_t>;  // makespan, peak of activations

// Nothing if the order waits for itself.
std::optional<Score> ScoreOf(const ActionRows& rows, int num_microbatches,
                             const std::vector<Rank>& stage_ranks) {
  Plan plan;
  plan.num_microbatches = num_microbatches;
  plan.stage_ranks = stage_ranks;
  plan.ranks = rows;
  const absl::StatusOr<Simulation> simulation = Simulate(plan);
  if (!simulation.ok()) return std::nullopt;
  return Score(simulation->makespan(), simulation->peak_activations());
}

}  // namespace

absl::StatusOr<ActionRows> BestForwardOrder(StagePlacement placement,
                                            const ScheduleShape& shape) {
  const std::vector<Rank> stage_ranks =
      PlaceStages(placement, shape.num_ranks, shape.stages_per_rank);
  ActionRows best =
      GenerateDepthFirst(stage_ranks, shape.num_ranks, shape.num_microbatches);
  std::optional<Score> best_score =
      ScoreOf(best, shape.num_microbatches, stage_ranks);
  for (const Schedule& schedule : AvailableSchedules()) {
    if (!CheckShape(schedule, shape).ok()) continue;
    ActionRows rows = Relocate(
        ForwardOnly(schedule.generate(shape)),
        PlaceStages(schedule.placement, shape.num_ranks, shape.stages_per_rank),
        stage_ranks);
    const auto score = ScoreOf(rows, shape.num_microbatches, stage_ranks);
    if (score && (!best_score || *score < *best_score)) {
      best = std::move(rows);
      best_score = score;
    }
  }
  if (!best_score) return absl::InternalError("no order comes to its end");
  return best;
}

}  // namespace pipestage
