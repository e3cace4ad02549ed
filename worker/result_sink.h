#ifndef PIPESTAGE_WORKER_RESULT_SINK_H_
#define PIPESTAGE_WORKER_RESULT_SINK_H_

#include "absl/status/status.h"
#include "base/ids.h"
#include "worker/stage.h"
#include "worker/stage_tensor.h"

namespace pipestage {

// Takes what a call gives while it runs. Called by the compute thread.
class ResultSink {
 public:
  virtual ~ResultSink() = default;

  // The first thing that went wrong here. At most once; nothing comes after it.
  virtual void Fail(absl::Status error) = 0;
  // From the owner of the last stage, as microbatches finish, in the plan's
  // order. Errors end the call as a failed stage would.
  virtual absl::Status AddLoss(MicrobatchIndex m, MicrobatchLossValue loss) = 0;
  // Only outputs that the call wants. The tensor's bytes are not kept alive.
  virtual absl::Status AddOutput(MicrobatchIndex m, int output,
                                 const StageTensor& tensor) = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_RESULT_SINK_H_
