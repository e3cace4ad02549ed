#include "schedule/render/grid.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "schedule/simulator.h"

namespace pipestage {
namespace {

constexpr char kIdle = '.';
// A grid narrower than this shows nothing.
constexpr int kMinCells = 8;

constexpr char kWeightMark = ':';
// Goes on with what the cell before shows.
constexpr char kGoesOn[] = "-";

char MicrobatchMark(const Action& action) {
  constexpr char kMarks[] = "0123456789abcdefghijklmnopqrstuvwxyz";
  return kMarks[action.microbatch.value() % 36];
}

// Where forwards and backwards share a line.
char StepMark(const Action& action) {
  const int microbatch = action.microbatch.value();
  if (action.kind == ActionKind::kForward) return '0' + microbatch % 10;
  if (action.kind == ActionKind::kBackwardWeight) return kWeightMark;
  return 'a' + microbatch % 26;
}

std::string RankLabel(int rank) { return absl::StrFormat("rank %-3d", rank); }

// A line of one character a cell, by rank and stage.
using Lanes = std::map<std::pair<int, int>, std::string>;

std::string LaneLabel(int rank, int stage) {
  return absl::StrFormat("rank %-3d stage %-4d", rank, stage);
}

int LaneCells(int max_columns) {
  const int label = static_cast<int>(LaneLabel(0, 0).size());
  return std::max(kMinCells, max_columns - label);
}

void AppendLanes(const Lanes& lanes, std::string* text) {
  for (const auto& [lane, cells] : lanes) {
    absl::StrAppend(text, LaneLabel(lane.first, lane.second), cells, "\n");
  }
}

std::string DrawWide(const Timeline& times, int cell_width) {
  std::string text;
  for (size_t rank = 0; rank < times.ranks.size(); ++rank) {
    std::vector<std::string> cells(times.makespan, std::string(1, kIdle));
    for (const Timeline::Span& span : times.ranks[rank]) {
      for (int64_t at = span.start; at < span.end; ++at) {
        cells[at] = at == span.start ? ToString(span.action) : kGoesOn;
      }
    }
    absl::StrAppend(&text, RankLabel(static_cast<int>(rank)));
    for (const std::string& cell : cells) {
      absl::StrAppendFormat(&text, "%*s", cell_width, cell);
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string DrawNarrow(const Timeline& times, PlanMode mode, int max_columns) {
  const int64_t shown =
      std::min<int64_t>(times.makespan, LaneCells(max_columns));
  Lanes lanes;
  for (size_t rank = 0; rank < times.ranks.size(); ++rank) {
    for (const Timeline::Span& span : times.ranks[rank]) {
      std::string& cells =
          lanes[{static_cast<int>(rank), span.action.stage.value()}];
      cells.resize(shown, kIdle);
      for (int64_t at = span.start; at < std::min(span.end, shown); ++at) {
        cells[at] = mode == PlanMode::kStep ? StepMark(span.action)
                                            : MicrobatchMark(span.action);
      }
    }
  }
  std::string text;
  AppendLanes(lanes, &text);
  if (shown < times.makespan) {
    absl::StrAppend(&text, "(the first ", shown, " of ", times.makespan,
                    " steps)\n");
  }
  if (mode == PlanMode::kStep) {
    absl::StrAppend(&text,
                    "(0-9: forward of the microbatch; a-z: its backward; ",
                    std::string(1, kWeightMark), ": weight gradient)\n");
  }
  return text;
}

// Calls `fn(rank, timed action)` for the compute actions with usable times.
template <typename Fn>
void ForEachTimed(absl::Span<const RankTimeline> ranks, Fn&& fn) {
  for (const RankTimeline& timeline : ranks) {
    for (const TimedAction& timed : timeline.actions) {
      if (IsCompute(timed.action.kind) &&
          timed.action.microbatch.value() >= 0 &&
          std::isfinite(timed.start_s) && std::isfinite(timed.end_s) &&
          timed.start_s <= timed.end_s) {
        fn(timeline.rank, timed);
      }
    }
  }
}

// What took the time of one cell.
struct CellUse {
  double busy_s = 0;
  double most_s = 0;
  char most = kIdle;
};

void AddUse(const TimedAction& timed, double origin_s, double cell_s,
            std::vector<CellUse>& cells) {
  const double last_cell = static_cast<double>(cells.size()) - 1;
  const auto cell_of = [&](double time_s) {
    return static_cast<size_t>(
        std::clamp((time_s - origin_s) / cell_s, 0.0, last_cell));
  };
  for (size_t i = cell_of(timed.start_s); i <= cell_of(timed.end_s); ++i) {
    const double from = origin_s + static_cast<double>(i) * cell_s;
    const double used =
        std::min(timed.end_s, from + cell_s) - std::max(timed.start_s, from);
    cells[i].busy_s += used;
    if (used > cells[i].most_s) {
      cells[i].most_s = used;
      cells[i].most = MicrobatchMark(timed.action);
    }
  }
}

std::string MarksOf(const std::vector<CellUse>& cells, double cell_s) {
  std::string marks;
  for (const CellUse& cell : cells) {
    marks += cell.busy_s * 2 >= cell_s ? cell.most : kIdle;
  }
  return marks;
}

}  // namespace

absl::StatusOr<std::string> DrawPlan(const Plan& plan, int max_columns) {
  PIPESTAGE_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(plan));
  const Timeline& times = simulation.timeline;
  size_t longest = 1;
  for (const auto& spans : times.ranks) {
    for (const Timeline::Span& span : spans) {
      longest = std::max(longest, ToString(span.action).size());
    }
  }
  const int cell_width = static_cast<int>(longest) + 1;
  const int label_width = static_cast<int>(RankLabel(0).size());
  if (label_width + times.makespan * cell_width <= max_columns) {
    return DrawWide(times, cell_width);
  }
  return DrawNarrow(times, plan.mode, max_columns);
}

std::string DrawTimeline(absl::Span<const RankTimeline> ranks,
                         int max_columns) {
  double origin_s = HUGE_VAL;
  double end_s = -HUGE_VAL;
  ForEachTimed(ranks, [&](int, const TimedAction& timed) {
    origin_s = std::min(origin_s, timed.start_s);
    end_s = std::max(end_s, timed.end_s);
  });
  if (!(origin_s < end_s)) return "(nothing was measured)\n";

  const int num_cells = LaneCells(max_columns);
  const double cell_s = (end_s - origin_s) / num_cells;
  std::map<std::pair<int, int>, std::vector<CellUse>> uses;
  ForEachTimed(ranks, [&](int rank, const TimedAction& timed) {
    auto [lane, added] = uses.try_emplace({rank, timed.action.stage.value()});
    if (added) lane->second.resize(num_cells);
    AddUse(timed, origin_s, cell_s, lane->second);
  });
  Lanes lanes;
  for (const auto& [lane, cells] : uses) lanes[lane] = MarksOf(cells, cell_s);
  std::string text;
  AppendLanes(lanes, &text);
  absl::StrAppendFormat(&text,
                        "(a column is %.3g ms; 0-9a-z: the microbatch; %c: "
                        "waiting)\n",
                        cell_s * 1e3, kIdle);
  return text;
}

}  // namespace pipestage
