#include "client/cli/progress.h"

#include <string>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace pipestage {
namespace {

constexpr absl::Duration kRefresh = absl::Milliseconds(250);
constexpr int kLiveWidth = 70;

}  // namespace

Progress::Progress(std::ostream& err, Mode mode, absl::Duration patience)
    : err_(err), mode_(mode), patience_(patience), begun_(absl::Now()) {
  if (mode_ == Mode::kLive) live_ = std::thread([this] { ShowLive(); });
}

Progress::~Progress() {
  {
    absl::MutexLock lock(&mu_);
    done_ = true;
  }
  if (live_.joinable()) live_.join();
}

MicrobatchCallback Progress::callback() {
  if (mode_ == Mode::kNone) return nullptr;
  return [this](const v1::MicrobatchLoss& microbatch) {
    OnMicrobatch(microbatch);
  };
}

void Progress::OnMicrobatch(const v1::MicrobatchLoss& microbatch) {
  absl::MutexLock lock(&mu_);
  ++finished_;
  finished_rows_ += microbatch.rows();
  if (mode_ != Mode::kLines) return;
  const v1::Loss& loss = microbatch.loss();
  err_ << absl::StrFormat(
              "microbatch %d, rows %d..%d: loss sum %.8g, weight %d (%.1f s)\n",
              microbatch.microbatch(), microbatch.first_row(),
              microbatch.first_row() + microbatch.rows() - 1, loss.sum(),
              loss.weight(), absl::ToDoubleSeconds(absl::Now() - begun_))
       << std::flush;
}

void Progress::ShowLive() {
  absl::MutexLock lock(&mu_);
  bool shown = false;
  absl::Duration wait = patience_;
  while (!mu_.AwaitWithTimeout(absl::Condition(&done_), wait)) {
    const std::string text = absl::StrFormat(
        "%.1f s: %d microbatches, %d rows done",
        absl::ToDoubleSeconds(absl::Now() - begun_), finished_, finished_rows_);
    err_ << absl::StrFormat("\r%-*s", kLiveWidth, text) << std::flush;
    shown = true;
    wait = kRefresh;
  }
  if (shown) err_ << "\r" << std::string(kLiveWidth, ' ') << "\r" << std::flush;
}

}  // namespace pipestage
