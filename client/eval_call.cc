#include "client/eval_call.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/grpc_status.h"
#include "base/status_macros.h"
#include "client/output_assembler.h"
#include "grpcpp/support/sync_stream.h"
#include "tensor/tensor_codec.h"

namespace pipestage {
namespace {

using Stream = grpc::ClientReaderWriter<v1::EvalChunk, v1::EvalEvent>;

void Announce(const std::map<std::string, HostTensor>& tensors,
              v1::TensorRole role, v1::EvalHeader& header,
              std::vector<const HostTensor*>& order) {
  for (const auto& [name, tensor] : tensors) {
    v1::TensorAnnouncement* announcement = header.add_tensors();
    announcement->set_role(role);
    announcement->set_name(name);
    *announcement->mutable_spec() = EncodeSpec(tensor.dtype, tensor.shape);
    order.push_back(&tensor);
  }
}

// The bytes of one tensor. False when the server no longer listens.
bool SendTensor(Stream& stream, int index, const HostTensor& tensor,
                int64_t chunk_bytes) {
  v1::EvalChunk message;
  v1::TensorChunk& chunk = *message.mutable_chunk();
  chunk.set_tensor(index);
  const size_t size = tensor.data.size();
  for (size_t offset = 0; offset < size;) {
    const size_t count = std::min<size_t>(chunk_bytes, size - offset);
    chunk.set_data(tensor.data.data() + offset, count);
    if (!stream.Write(message)) return false;
    offset += count;
  }
  return true;
}

void SendAll(Stream& stream, const EvalInput& input, int64_t chunk_bytes) {
  v1::EvalChunk first;
  v1::EvalHeader& header = *first.mutable_header();
  *header.mutable_model() = input.model;
  *header.mutable_options() = input.options;
  std::vector<const HostTensor*> tensors;
  Announce(input.inputs, v1::INPUT, header, tensors);
  Announce(input.targets, v1::TARGET, header, tensors);
  if (!stream.Write(first)) return;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!SendTensor(stream, static_cast<int>(i), *tensors[i], chunk_bytes)) {
      return;
    }
  }
  stream.WritesDone();
}

// What a server answers to one call.
class AnswerReader {
 public:
  AnswerReader(int64_t max_output_bytes,
               const MicrobatchCallback& on_microbatch)
      : outputs_(max_output_bytes), on_microbatch_(on_microbatch) {}

  absl::Status Take(v1::EvalEvent& event) {
    if (summary_.has_value()) {
      return absl::DataLossError("the server went on after its summary");
    }
    switch (event.kind_case()) {
      case v1::EvalEvent::kMicrobatch:
        if (on_microbatch_) on_microbatch_(event.microbatch());
        return absl::OkStatus();
      case v1::EvalEvent::kOutputs:
        return outputs_.Begin(event.outputs());
      case v1::EvalEvent::kChunk:
        return outputs_.AddChunk(event.chunk());
      case v1::EvalEvent::kSummary:
        summary_ = std::move(*event.mutable_summary());
        return absl::OkStatus();
      case v1::EvalEvent::KIND_NOT_SET:
        return absl::OkStatus();  // of a newer server
    }
    return absl::OkStatus();
  }

  absl::StatusOr<EvalResult> Finish() && {
    if (!summary_.has_value()) {
      return absl::DataLossError("the server ended the call without a summary");
    }
    EvalResult result;
    PIPESTAGE_ASSIGN_OR_RETURN(result.outputs, std::move(outputs_).Finish());
    result.summary = *std::move(summary_);
    return result;
  }

 private:
  OutputAssembler outputs_;
  const MicrobatchCallback& on_microbatch_;
  std::optional<v1::EvalResponse> summary_;
};

}  // namespace

int64_t TensorBytes(const EvalInput& input) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : input.inputs) bytes += tensor.data.size();
  for (const auto& [name, tensor] : input.targets) bytes += tensor.data.size();
  return bytes;
}

absl::StatusOr<EvalResult> UnaryEval(v1::PipelineService::Stub& stub,
                                     grpc::ClientContext& context,
                                     const EvalInput& input) {
  v1::EvalRequest request;
  *request.mutable_model() = input.model;
  *request.mutable_options() = input.options;
  for (const auto& [name, tensor] : input.inputs) {
    (*request.mutable_inputs())[name] = EncodeTensor(tensor);
  }
  for (const auto& [name, tensor] : input.targets) {
    (*request.mutable_targets())[name] = EncodeTensor(tensor);
  }
  v1::EvalResponse response;
  PIPESTAGE_RETURN_IF_ERROR(
      FromGrpcStatus(stub.Eval(&context, request, &response)));

  EvalResult result;
  // The outputs' bytes stay in their message.
  auto outputs =
      std::make_shared<google::protobuf::Map<std::string, v1::Tensor>>();
  outputs->swap(*response.mutable_outputs());
  for (const auto& [name, tensor] : *outputs) {
    PIPESTAGE_ASSIGN_OR_RETURN(
        result.outputs[name],
        BorrowTensor(absl::StrCat("output \"", name, "\""), tensor, outputs));
  }
  result.summary = std::move(response);
  return result;
}

absl::StatusOr<EvalResult> StreamedEval(
    v1::PipelineService::Stub& stub, grpc::ClientContext& context,
    const EvalInput& input, const StreamLimits& limits,
    const MicrobatchCallback& on_microbatch) {
  const std::unique_ptr<Stream> stream = stub.StreamEval(&context);
  // Two threads, for a server may answer before it has read everything, and
  // neither side may wait for the other.
  std::thread sender([&] { SendAll(*stream, input, limits.chunk_bytes); });
  AnswerReader reader(limits.max_output_bytes, on_microbatch);
  absl::Status status;
  v1::EvalEvent event;
  while (stream->Read(&event)) {
    if (!status.ok()) continue;
    status = reader.Take(event);
    if (!status.ok()) context.TryCancel();
  }
  sender.join();
  const absl::Status finished = FromGrpcStatus(stream->Finish());
  PIPESTAGE_RETURN_IF_ERROR(status);
  PIPESTAGE_RETURN_IF_ERROR(finished);
  return std::move(reader).Finish();
}

}  // namespace pipestage
