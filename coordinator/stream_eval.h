#ifndef PIPESTAGE_COORDINATOR_STREAM_EVAL_H_
#define PIPESTAGE_COORDINATOR_STREAM_EVAL_H_

#include "absl/time/time.h"
#include "base/clock.h"
#include "coordinator/admission.h"
#include "coordinator/call_inputs.h"
#include "coordinator/eval_runner.h"
#include "coordinator/timers.h"
#include "coordinator/transfer_pace.h"
#include "grpcpp/grpcpp.h"
#include "proto/pipeline_service.pb.h"

namespace pipestage {

struct StreamEvalOptions {
  StreamedInputs::Limits limits;
  absl::Time deadline;
  // Not owned; all outlive the stream.
  EvalRunner* runner;
  Admission* admission;
  Clock* clock;
  Timers* timers;
  // For the upload, and for each piece of the answer.
  TransferPace::Options pace;
};

// Serves one StreamEval: reads header and chunks, runs the call when all
// tensors are there, and writes losses, outputs in chunks, and the summary.
// Bytes are reserved by what the header declares, before memory is taken for
// them; a client that then does not send, or does not read, loses them again.
//
// The reactor owns itself.
grpc::ServerBidiReactor<v1::EvalChunk, v1::EvalEvent>* BeginStreamEval(
    grpc::CallbackServerContext* context, StreamEvalOptions options);

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_STREAM_EVAL_H_
