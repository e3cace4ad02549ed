#include "coordinator/traffic.h"

namespace pipestage {
namespace {

size_t FeedBytes(const v1::Run& run) {
  size_t bytes = 0;
  for (const auto& feed : run.feeds()) bytes += feed.data().size();
  return bytes;
}

size_t ResultBytes(const v1::CallDone& done) {
  size_t bytes = done.has_losses() ? done.losses().ByteSizeLong() : 0;
  for (const auto& output : done.outputs()) bytes += output.data().size();
  return bytes;
}

}  // namespace

void Traffic::CountSent(const v1::CoordinatorMessage& message, size_t bytes) {
  size_t payload = 0;
  switch (message.kind_case()) {
    case v1::CoordinatorMessage::kFeed:
      CountFeedSent(bytes);
      return;
    case v1::CoordinatorMessage::kRun:
      payload = FeedBytes(message.run());
      break;
    case v1::CoordinatorMessage::kInstallPlan:
    case v1::CoordinatorMessage::kForgetPlan:
    case v1::CoordinatorMessage::kCancel:
      break;
    default:
      return;
  }
  ++control_messages_sent_;
  control_bytes_sent_ += bytes - payload;
  payload_bytes_sent_ += payload;
}

void Traffic::CountFeedSent(size_t bytes) { payload_bytes_sent_ += bytes; }

void Traffic::CountReceived(const v1::WorkerMessage& message, size_t bytes) {
  size_t payload = 0;
  switch (message.kind_case()) {
    case v1::WorkerMessage::kLosses:
    case v1::WorkerMessage::kOutput:
      payload_bytes_received_ += bytes;
      return;
    case v1::WorkerMessage::kCallDone:
      payload = ResultBytes(message.call_done());
      break;
    case v1::WorkerMessage::kCallFailed:
      break;
    default:
      return;
  }
  ++control_messages_received_;
  control_bytes_received_ += bytes - payload;
  payload_bytes_received_ += payload;
}

v1::TrafficStatus Traffic::status() const {
  v1::TrafficStatus status;
  status.set_control_messages_sent(control_messages_sent_);
  status.set_control_bytes_sent(control_bytes_sent_);
  status.set_control_messages_received(control_messages_received_);
  status.set_control_bytes_received(control_bytes_received_);
  status.set_payload_bytes_sent(payload_bytes_sent_);
  status.set_payload_bytes_received(payload_bytes_received_);
  return status;
}

}  // namespace pipestage
