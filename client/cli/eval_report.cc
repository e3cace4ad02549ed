#include "client/cli/eval_report.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/message_json.h"
#include "schedule/action.h"
#include "schedule/render/grid.h"

namespace pipestage {
namespace {

// More microbatches than this are not listed for people one by one.
constexpr int kMaxListed = 32;

std::string Label(absl::string_view label) {
  return absl::StrFormat("%-12s", label);
}

std::string MeanText(const v1::Loss& loss) {
  return loss.has_mean() ? absl::StrFormat("%.8g", loss.mean()) : "-";
}

std::string RowsText(const v1::MicrobatchLoss& microbatch) {
  return absl::StrCat(microbatch.first_row(), "..",
                      microbatch.first_row() + microbatch.rows() - 1);
}

void AppendLoss(const v1::EvalResponse& summary, std::string* text) {
  absl::StrAppend(text, Label("loss"));
  if (!summary.has_loss()) {
    absl::StrAppend(text, "this model has none\n");
  } else if (summary.loss().weight() == 0) {
    absl::StrAppend(text,
                    "no valid targets: the weight is 0, so there is "
                    "nothing to average\n");
  } else {
    absl::StrAppendFormat(text, "%s = sum %.8g / weight %d\n",
                          MeanText(summary.loss()), summary.loss().sum(),
                          summary.loss().weight());
  }
  if (summary.loss().nonfinite() == 0) return;
  std::vector<std::string> where;
  for (const v1::MicrobatchLoss& microbatch : summary.microbatches()) {
    if (microbatch.loss().nonfinite() == 0) continue;
    where.push_back(absl::StrCat(microbatch.microbatch(), " (rows ",
                                 RowsText(microbatch), ")"));
  }
  absl::StrAppend(text, Label("not finite"), summary.loss().nonfinite(),
                  " losses are NaN or infinite, in microbatch ",
                  absl::StrJoin(where, ", "), "\n");
}

void AppendMicrobatches(const v1::EvalResponse& summary, std::string* text) {
  if (!summary.has_loss() || summary.microbatches().empty()) return;
  absl::StrAppendFormat(text, "%-12s%13s %14s %16s %9s\n", "microbatch", "rows",
                        "loss", "sum", "weight");
  const int listed = std::min(summary.microbatches_size(), kMaxListed);
  for (int i = 0; i < listed; ++i) {
    const v1::MicrobatchLoss& microbatch = summary.microbatches(i);
    absl::StrAppendFormat(text, "%10d  %13s %14s %16.8g %9d\n",
                          microbatch.microbatch(), RowsText(microbatch),
                          MeanText(microbatch.loss()), microbatch.loss().sum(),
                          microbatch.loss().weight());
  }
  if (listed < summary.microbatches_size()) {
    absl::StrAppend(text, Label(""), "and ",
                    summary.microbatches_size() - listed,
                    " more (--output json has them all)\n");
  }
}

void AppendRan(const v1::Ran& ran, std::string* text) {
  absl::StrAppend(text, Label("ran"), ran.model(), "@", ran.version(), " (",
                  ran.model_digest().substr(0, 12), ") on ", ran.workers(),
                  " workers with ", ran.stages_per_worker(),
                  " stages each: ", ran.schedule(), ", ",
                  ran.num_microbatches(), " microbatches\n");
  absl::StrAppend(text, Label(""), "plan ", ran.plan_id().substr(0, 12),
                  ran.plan_cache_hit() ? " (from the cache)" : " (compiled)",
                  ", call ", ran.call_id(), ", epoch ", ran.epoch(),
                  ", generation ", ran.generation(), "\n");
}

void AppendTimings(const v1::Timings& timings, double wall_s,
                   std::string* text) {
  absl::StrAppend(text, Label("took"));
  absl::StrAppendFormat(text,
                        "%.4f s: queue %.4f, plan %.4f, run %.4f (workers "
                        "idle for %.1f %% of it); %.4f s with transfer\n",
                        timings.total_s(), timings.queue_s(), timings.plan_s(),
                        timings.run_s(), timings.bubble_ratio() * 100, wall_s);
}

void AppendOutputs(const EvalReport& report, std::string* text) {
  for (const auto& [name, tensor] : report.result.outputs) {
    const auto file = report.output_files.find(name);
    absl::StrAppend(
        text, Label("output"), name, " ", Describe(tensor.dtype, tensor.shape),
        file == report.output_files.end() ? " (not written: --outputs-dir DIR)"
                                          : absl::StrCat(" in ", file->second),
        "\n");
  }
}

std::string TimelineText(const v1::EvalResponse& summary) {
  std::vector<RankTimeline> ranks;
  for (const v1::WorkerTimeline& worker : summary.timeline()) {
    RankTimeline rank;
    rank.rank = worker.rank();
    for (const v1::TimelineAction& timed : worker.actions()) {
      // A newer server may know actions that we do not.
      absl::StatusOr<Action> action = ParseAction(timed.action());
      if (!action.ok()) continue;
      rank.actions.push_back({*action, timed.start_s(), timed.end_s()});
    }
    ranks.push_back(std::move(rank));
  }
  return DrawTimeline(ranks);
}

Json LossJson(const v1::Loss& loss) {
  return {{"loss_sum", FiniteOrNull(loss.sum())},
          {"weight", loss.weight()},
          {"loss", loss.has_mean() ? FiniteOrNull(loss.mean()) : Json()},
          {"nonfinite", loss.nonfinite()}};
}

Json MicrobatchesJson(const v1::EvalResponse& summary) {
  Json microbatches = Json::array();
  for (const v1::MicrobatchLoss& microbatch : summary.microbatches()) {
    Json entry = {{"microbatch", microbatch.microbatch()},
                  {"first_row", microbatch.first_row()},
                  {"rows", microbatch.rows()}};
    if (microbatch.has_loss()) entry.update(LossJson(microbatch.loss()));
    microbatches.push_back(std::move(entry));
  }
  return microbatches;
}

Json OutputsJson(const EvalReport& report) {
  Json outputs = Json::object();
  for (const auto& [name, tensor] : report.result.outputs) {
    const auto file = report.output_files.find(name);
    outputs[name] = {
        {"dtype", std::string(DTypeName(tensor.dtype))},
        {"shape",
         std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())},
        {"file",
         file == report.output_files.end() ? Json() : Json(file->second)}};
  }
  return outputs;
}

}  // namespace

std::string EvalReportText(const EvalReport& report) {
  const v1::EvalResponse& summary = report.result.summary;
  std::string text;
  AppendLoss(summary, &text);
  AppendMicrobatches(summary, &text);
  AppendRan(summary.ran(), &text);
  AppendTimings(summary.timings(), report.wall_s, &text);
  AppendOutputs(report, &text);
  if (report.timeline) absl::StrAppend(&text, TimelineText(summary));
  return text;
}

std::string EvalReportJson(const EvalReport& report) {
  const v1::EvalResponse& summary = report.result.summary;
  Json json = Json::object();
  if (summary.has_loss()) {
    json.update(LossJson(summary.loss()));
  } else {
    json.update({{"loss_sum", nullptr},
                 {"weight", nullptr},
                 {"loss", nullptr},
                 {"nonfinite", nullptr}});
  }
  json["microbatches"] = MicrobatchesJson(summary);
  json["ran"] = MessageToJson(summary.ran());
  json["timings"] = MessageToJson(summary.timings());
  json["timings"]["wall_s"] = FiniteOrNull(report.wall_s);
  json["outputs"] = OutputsJson(report);
  if (report.timeline) {
    json["timeline"] = Json::array();
    for (const v1::WorkerTimeline& worker : summary.timeline()) {
      json["timeline"].push_back(MessageToJson(worker));
    }
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace pipestage
