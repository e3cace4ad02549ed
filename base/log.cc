#include "base/log.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/plain_text.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace pipestage {

namespace {

// Longer messages are cut: they hold text of others.
constexpr size_t kMaxMessageBytes = 4096;

// One message, one line.
class LineFormatter : public spdlog::formatter {
 public:
  explicit LineFormatter(std::unique_ptr<spdlog::formatter> inner)
      : inner_(std::move(inner)) {}

  void format(const spdlog::details::log_msg& message,
              spdlog::memory_buf_t& to) override {
    const std::string line = OneLine(
        {message.payload.data(), message.payload.size()}, kMaxMessageBytes);
    spdlog::details::log_msg clean = message;
    clean.payload = line;
    inner_->format(clean, to);
    message.color_range_start = clean.color_range_start;
    message.color_range_end = clean.color_range_end;
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(inner_->clone());
  }

 private:
  const std::unique_ptr<spdlog::formatter> inner_;
};

}  // namespace

absl::Status InitLogging(absl::string_view process, absl::string_view level) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off") {
    return absl::InvalidArgumentError(absl::StrCat(
        "log level is \"", level, "\"; it may be debug, info, warn or error"));
  }
  auto logger = std::make_shared<spdlog::logger>(
      std::string(process), std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::make_unique<LineFormatter>(
      std::make_unique<spdlog::pattern_formatter>(
          "%Y-%m-%dT%H:%M:%S.%e %^%l%$ [%n] %v")));
  logger->set_level(parsed);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

}  // namespace pipestage
