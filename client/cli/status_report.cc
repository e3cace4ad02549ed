#include "client/cli/status_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace pipestage {
namespace {

std::string Bytes(int64_t bytes) {
  if (bytes < 10'000) return absl::StrCat(bytes, " B");
  if (bytes < 10'000'000) return absl::StrFormat("%.1f kB", bytes / 1e3);
  return absl::StrFormat("%.1f MB", bytes / 1e6);
}

// Seconds from which a stage that computes is worth a line.
constexpr double kLongComputing = 5;

void AppendWorkers(const v1::Status& status, std::string* text) {
  absl::StrAppendFormat(text, "%-10s%d of %d\n", "workers",
                        status.workers_size(), status.workers_expected());
  size_t width = 6;
  for (const v1::WorkerStatus& worker : status.workers()) {
    width = std::max(width, worker.name().size());
  }
  for (const v1::WorkerStatus& worker : status.workers()) {
    absl::StrAppendFormat(
        text, "  rank %-3d %-*s  %s, %s, here for %.0f s, %s resident; %s\n",
        worker.rank(), static_cast<int>(width), worker.name(), worker.device(),
        worker.backend(), worker.attached_s(), Bytes(worker.resident_bytes()),
        worker.stages().empty() ? "no stages"
                                : absl::StrJoin(worker.stages(), " "));
    if (worker.leaving()) {
      absl::StrAppend(text, "           leaving when running calls are done\n");
    }
    if (worker.computing().seconds() >= kLongComputing) {
      absl::StrAppendFormat(
          text, "           computing stage %d, microbatch %d for %.0f s\n",
          worker.computing().stage(), worker.computing().microbatch(),
          worker.computing().seconds());
    }
  }
}

void AppendTraffic(const v1::TrafficStatus& traffic, std::string* text) {
  absl::StrAppendFormat(text,
                        "%-10scontrol %d messages (%s) to the workers, %d (%s) "
                        "from them; payload %s to, %s from\n",
                        "traffic", traffic.control_messages_sent(),
                        Bytes(traffic.control_bytes_sent()),
                        traffic.control_messages_received(),
                        Bytes(traffic.control_bytes_received()),
                        Bytes(traffic.payload_bytes_sent()),
                        Bytes(traffic.payload_bytes_received()));
}

}  // namespace

std::string StatusText(const v1::Status& status) {
  std::string text = absl::StrFormat(
      "%-10s%s, up for %.0f s, epoch %d, generation %d, version %s\n", "state",
      absl::StrReplaceAll(v1::PipelineState_Name(status.state()), {{"_", " "}}),
      status.uptime_s(), status.epoch(), status.generation(), status.version());
  AppendWorkers(status, &text);
  absl::StrAppendFormat(&text, "%-10s%s\n", "serving",
                        status.serving().empty()
                            ? "no models"
                            : absl::StrJoin(status.serving(), " "));
  const v1::QueueStatus& queue = status.queue();
  absl::StrAppendFormat(
      &text, "%-10s%d calls wait (of %d), %d run; %s admitted (of %s)\n",
      "queue", queue.calls_waiting(), queue.max_calls_waiting(),
      queue.calls_running(), Bytes(queue.bytes_admitted()),
      Bytes(queue.max_bytes()));
  absl::StrAppendFormat(&text, "%-10s%d kept, %d hits, %d misses\n", "plans",
                        status.plan_cache().entries(),
                        status.plan_cache().hits(),
                        status.plan_cache().misses());
  absl::StrAppendFormat(&text, "%-10s%d succeeded, %d failed\n", "calls",
                        status.calls_succeeded(), status.calls_failed());
  AppendTraffic(status.traffic(), &text);
  if (!status.last_failure().empty()) {
    absl::StrAppendFormat(&text, "%-10s%s\n", "failure", status.last_failure());
  }
  return text;
}

}  // namespace pipestage
