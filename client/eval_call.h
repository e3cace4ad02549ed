#ifndef PIPESTAGE_CLIENT_EVAL_CALL_H_
#define PIPESTAGE_CLIENT_EVAL_CALL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/client_context.h"
#include "proto/pipeline_service.grpc.pb.h"
#include "tensor/host_tensor.h"

namespace pipestage {

struct EvalInput {
  v1::ModelRef model;
  std::map<std::string, HostTensor> inputs;
  std::map<std::string, HostTensor> targets;
  v1::CallOptions options;
};

struct EvalResult {
  std::map<std::string, HostTensor> outputs;
  v1::EvalResponse summary;  // all but the outputs
};

// Called in the thread that called Eval, in order of completion.
using MicrobatchCallback = std::function<void(const v1::MicrobatchLoss&)>;

// Bytes of the tensors of `input`.
int64_t TensorBytes(const EvalInput& input);

// One call in one message each way.
absl::StatusOr<EvalResult> UnaryEval(v1::PipelineService::Stub& stub,
                                     grpc::ClientContext& context,
                                     const EvalInput& input);

struct StreamLimits {
  int64_t chunk_bytes = int64_t{1} << 20;
  int64_t max_output_bytes = int64_t{16} << 30;
};

// One call in chunks. Tensors are sent from where they are, one chunk in memory
// at a time, while answers are read; `on_microbatch` may be null.
absl::StatusOr<EvalResult> StreamedEval(
    v1::PipelineService::Stub& stub, grpc::ClientContext& context,
    const EvalInput& input, const StreamLimits& limits,
    const MicrobatchCallback& on_microbatch);

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_EVAL_CALL_H_
