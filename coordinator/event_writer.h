#ifndef PIPESTAGE_COORDINATOR_EVENT_WRITER_H_
#define PIPESTAGE_COORDINATOR_EVENT_WRITER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/transfer_pace.h"
#include "grpcpp/grpcpp.h"
#include "proto/pipeline_service.pb.h"

namespace pipestage {

// The writing half of a StreamEval. One write is under way at a time; a client
// that reads slowly keeps no more than the reply itself in memory.
//
// Thread-safe. Outlives the stream: then it drops what it is given.
class EventWriter : public std::enable_shared_from_this<EventWriter> {
 public:
  using Reactor = grpc::ServerBidiReactor<v1::EvalChunk, v1::EvalEvent>;

  // `pace` ends a stream whose client does not read.
  EventWriter(Reactor* reactor, grpc::CallbackServerContext* context,
              std::shared_ptr<TransferPace> pace)
      : pace_(std::move(pace)), reactor_(reactor), context_(context) {}

  // Losses of finished microbatches. Those of the reply are sent but once.
  void WriteLosses(const std::vector<v1::MicrobatchLoss>& losses)
      ABSL_LOCKS_EXCLUDED(mu_);
  // All that is left of a successful call; then the stream ends.
  void WriteReply(std::shared_ptr<v1::EvalResponse> reply)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the stream. Only the first end counts.
  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  void OnWriteDone(bool ok) ABSL_LOCKS_EXCLUDED(mu_);
  void OnStreamDone() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void AddLoss(const v1::MicrobatchLoss& loss)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AnnounceOutputs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A write does not end: nor would one of the stream's status.
  void BreakOff() ABSL_LOCKS_EXCLUDED(mu_);
  // Puts the next event into event_; false if there is none.
  bool TakeEvent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool TakeChunk() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<TransferPace> pace_;
  absl::Mutex mu_;
  Reactor* reactor_ ABSL_GUARDED_BY(mu_);
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mu_);
  std::deque<v1::EvalEvent> events_ ABSL_GUARDED_BY(mu_);
  std::vector<bool> losses_written_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<v1::EvalResponse> reply_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> outputs_ ABSL_GUARDED_BY(mu_);  // as announced
  size_t output_ ABSL_GUARDED_BY(mu_) = 0;                 // the one being sent
  size_t offset_ ABSL_GUARDED_BY(mu_) = 0;                 // of its bytes
  v1::EvalEvent event_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_EVENT_WRITER_H_
