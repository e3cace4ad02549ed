#ifndef PIPESTAGE_WORKER_RESULT_WRITER_H_
#define PIPESTAGE_WORKER_RESULT_WRITER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/ids.h"
#include "package/contract.h"
#include "proto/worker_link.pb.h"
#include "worker/outbox.h"
#include "worker/plan_executor.h"
#include "worker/prepared_call.h"
#include "worker/result_sink.h"
#include "worker/stage.h"

namespace pipestage {

// Turns what a call gives into messages: losses and outputs in pieces of about
// 256 KiB as they come, the rest on the CallDone that ends the call.
//
// Copies each output once (on a device: twice). One thread.
class ResultWriter : public ResultSink {
 public:
  struct Options {
    int64_t piece_bytes = 256 << 10;
    // Losses reported as they come are sent no more often than this.
    absl::Duration progress_interval = absl::Milliseconds(20);
    // What one microbatch may have of one output: the most that a message of
    // protobuf holds, less some for the rest of it.
    int64_t max_part_bytes = (int64_t{1} << 31) - (1 << 20);
  };

  // None is owned; all, and `call`, outlive the writer.
  ResultWriter(Options options, const PreparedCall& call, Outbox* outbox,
               StageLoader* loader, Clock* clock);

  void Fail(absl::Status error) override;
  absl::Status AddLoss(MicrobatchIndex m, MicrobatchLossValue loss) override;
  absl::Status AddOutput(MicrobatchIndex m, int output,
                         const StageTensor& tensor) override;

  // Ends the call. Nothing comes after it.
  void Finish(const CallOutcome& outcome);

 private:
  int64_t call_id() const { return call_.inbox->call().value(); }
  void SendLosses();
  void SendOutput(v1::OutputData& piece);
  void Begin(v1::OutputData& piece, MicrobatchIndex m, size_t first_bytes);
  void AttachResults(v1::CallDone& done);

  const Options options_;
  const PreparedCall& call_;
  Outbox* const outbox_;
  StageLoader* const loader_;
  Clock* const clock_;

  bool failed_ = false;
  v1::LossReport losses_;
  int64_t losses_bytes_ = 0;
  absl::Time last_report_;
  std::vector<v1::OutputData>
      pieces_;  // by output; no microbatches: none begun
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_RESULT_WRITER_H_
