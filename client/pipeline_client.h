#ifndef PIPESTAGE_CLIENT_PIPELINE_CLIENT_H_
#define PIPESTAGE_CLIENT_PIPELINE_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/eval_call.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/credentials.h"
#include "proto/model_service.grpc.pb.h"
#include "proto/pipeline_service.grpc.pb.h"
#include "proto/status_service.grpc.pb.h"

namespace pipestage {

// Talks to a Pipestage coordinator.
//
//   auto client = PipelineClient::Create({.address = "127.0.0.1:7070"});
//   EvalInput input;
//   input.model.set_name("byte-lm");
//   input.inputs["tokens"] = tokens;
//   input.targets["targets"] = targets;
//   auto result = (*client)->Eval(input);
//
// Thread-safe; calls block. Errors are the server's, with its ErrorInfo (see
// base/error_info.h); Unavailable also if nobody answers at the address. Every
// call here is safe to retry.
class PipelineClient {
 public:
  struct Options {
    std::string address = "127.0.0.1:7070";
    std::shared_ptr<grpc::ChannelCredentials> credentials;  // null: plaintext
    // For each call; DeadlineExceeded after it.
    absl::Duration timeout = absl::InfiniteDuration();
    // The largest message taken from the server.
    int max_message_bytes = 64 << 20;
    // Tensors of more than this go in chunks. Servers refuse messages of 4 MiB
    // unless told otherwise.
    int64_t max_unary_bytes = int64_t{3} << 20;
    StreamLimits stream;
  };

  enum class Transport {
    // Chunks if the inputs are large, if outputs (whose size nobody knows yet)
    // are wanted, or if microbatches are to be reported as they finish.
    kChoose,
    kUnary,
    kStream,
  };

  // Connects when first used. InvalidArgument for an empty address or limits
  // below 1.
  static absl::StatusOr<std::unique_ptr<PipelineClient>> Create(
      Options options);

  absl::StatusOr<EvalResult> Eval(const EvalInput& input,
                                  const MicrobatchCallback& on_microbatch = {},
                                  Transport transport = Transport::kChoose);

  // All versions in the repository, by name, newest first.
  absl::StatusOr<std::vector<v1::Model>> ListModels();
  absl::StatusOr<v1::Model> GetModel(const v1::ModelRef& model);
  // `num_workers` 0: the most that divide the model's stages.
  absl::StatusOr<v1::Model> LoadModel(const v1::ModelRef& model,
                                      int num_workers = 0);
  absl::Status UnloadModel(const v1::ModelRef& model);
  absl::StatusOr<v1::Status> GetStatus();

 private:
  PipelineClient(Options options, std::shared_ptr<grpc::Channel> channel);

  void Prepare(grpc::ClientContext& context) const;
  bool NeedsStream(const EvalInput& input,
                   const MicrobatchCallback& on_microbatch) const;

  const Options options_;
  const std::unique_ptr<v1::PipelineService::Stub> pipeline_;
  const std::unique_ptr<v1::ModelService::Stub> models_;
  const std::unique_ptr<v1::StatusService::Stub> status_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_PIPELINE_CLIENT_H_
