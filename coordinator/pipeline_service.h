#ifndef PIPESTAGE_COORDINATOR_PIPELINE_SERVICE_H_
#define PIPESTAGE_COORDINATOR_PIPELINE_SERVICE_H_

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "coordinator/admission.h"
#include "coordinator/call_inputs.h"
#include "coordinator/eval_runner.h"
#include "coordinator/timers.h"
#include "coordinator/transfer_pace.h"
#include "grpcpp/grpcpp.h"
#include "proto/pipeline_service.grpc.pb.h"

namespace pipestage {

// Serves PipelineService: translates between gRPC and the EvalRunner.
//
// A unary request is owned together with its reply, by whoever still needs
// either: feeds refer to its bytes after a call has been answered.
//
// Thread-safe. Outlives the server it is registered with.
class PipelineServiceImpl final : public v1::PipelineService::CallbackService {
 public:
  struct Options {
    int64_t max_message_bytes = 64 << 20;
    StreamedInputs::Limits stream_limits;
    TransferPace::Options pace;  // of streams
  };

  // Not owned; all outlive the service.
  PipelineServiceImpl(Options options, EvalRunner* runner, Admission* admission,
                      Clock* clock, Timers* timers);
  ~PipelineServiceImpl() override;

  grpc::ServerUnaryReactor* Eval(grpc::CallbackServerContext* context,
                                 const v1::EvalRequest* request,
                                 v1::EvalResponse* response) override;
  grpc::ServerBidiReactor<v1::EvalChunk, v1::EvalEvent>* StreamEval(
      grpc::CallbackServerContext* context) override;

 private:
  class Allocator;

  const Options options_;
  EvalRunner* const runner_;
  Admission* const admission_;
  Clock* const clock_;
  Timers* const timers_;
  const std::unique_ptr<Allocator> allocator_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_PIPELINE_SERVICE_H_
