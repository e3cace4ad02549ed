#include "coordinator/call_inputs.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_info.h"
#include "base/status_macros.h"
#include "tensor/tensor_codec.h"

namespace pipestage {
namespace {

constexpr size_t kMaxNameBytes = 256;

absl::Status Malformed(std::string message) {
  return WithReason(absl::InvalidArgumentError(std::move(message)),
                    reason::kMalformedTensor);
}

std::string Describe(v1::TensorRole role, absl::string_view name) {
  return absl::StrCat(role == v1::TARGET ? "target \"" : "input \"",
                      name.substr(0, kMaxNameBytes), "\"");
}

absl::Status Borrow(
    v1::TensorRole role,
    const google::protobuf::Map<std::string, v1::Tensor>& tensors,
    const std::shared_ptr<const void>& owner,
    std::map<std::string, HostTensor>& out) {
  for (const auto& [name, tensor] : tensors) {
    PIPESTAGE_ASSIGN_OR_RETURN(
        out[name], BorrowTensor(Describe(role, name), tensor, owner));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t CallInputs::size_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : inputs) bytes += tensor.data.size();
  for (const auto& [name, tensor] : targets) bytes += tensor.data.size();
  return bytes;
}

absl::StatusOr<CallInputs> BorrowInputs(const v1::EvalRequest& request,
                                        std::shared_ptr<const void> owner) {
  CallInputs inputs;
  PIPESTAGE_RETURN_IF_ERROR(
      Borrow(v1::INPUT, request.inputs(), owner, inputs.inputs));
  PIPESTAGE_RETURN_IF_ERROR(
      Borrow(v1::TARGET, request.targets(), owner, inputs.targets));
  return inputs;
}

absl::StatusOr<StreamedInputs> StreamedInputs::Begin(
    const v1::EvalHeader& header, Limits limits) {
  if (header.tensors_size() > limits.max_tensors) {
    return Malformed(
        absl::StrCat("the header announces ", header.tensors_size(),
                     " tensors; the limit is ", limits.max_tensors));
  }
  StreamedInputs inputs;
  for (const auto& announcement : header.tensors()) {
    PIPESTAGE_RETURN_IF_ERROR(inputs.Announce(announcement, limits));
  }
  return inputs;
}

absl::Status StreamedInputs::Announce(
    const v1::TensorAnnouncement& announcement, const Limits& limits) {
  const std::string& name = announcement.name();
  const v1::TensorRole role = announcement.role();
  if (role != v1::INPUT && role != v1::TARGET) {
    return Malformed(absl::StrCat(
        "tensor ", tensors_.size(), " is announced as ",
        v1::TensorRole_Name(role), "; a client sends INPUT and TARGET"));
  }
  if (name.empty() || name.size() > kMaxNameBytes) {
    return Malformed(absl::StrCat("the name of tensor ", tensors_.size(),
                                  " has ", name.size(), " bytes; 1 to ",
                                  kMaxNameBytes, " are allowed"));
  }
  for (const Arriving& other : tensors_) {
    if (other.role == role && other.name == name) {
      return Malformed(
          absl::StrCat(Describe(role, name), " is announced twice"));
    }
  }
  PIPESTAGE_RETURN_IF_ERROR(
      ValidateSpec(Describe(role, name), announcement.spec()));
  Arriving arriving{role, name};
  PIPESTAGE_ASSIGN_OR_RETURN(arriving.tensor.dtype,
                             DTypeFromProto(announcement.spec().dtype()));
  arriving.tensor.shape.assign(announcement.spec().shape().begin(),
                               announcement.spec().shape().end());
  PIPESTAGE_ASSIGN_OR_RETURN(
      arriving.size, NumBytes(arriving.tensor.dtype, arriving.tensor.shape));
  if (arriving.size > limits.max_bytes - size_bytes_) {
    return WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "with ", Describe(role, name), " of ", arriving.size,
            " bytes the call's tensors pass the limit of ", limits.max_bytes)),
        reason::kMessageTooLarge,
        {{"expected", absl::StrCat(limits.max_bytes)}});
  }
  size_bytes_ += arriving.size;
  missing_bytes_ += arriving.size;
  tensors_.push_back(std::move(arriving));
  return absl::OkStatus();
}

absl::Status StreamedInputs::Add(const v1::TensorChunk& chunk) {
  if (chunk.tensor() < 0 ||
      chunk.tensor() >= static_cast<int>(tensors_.size())) {
    return Malformed(absl::StrCat("a chunk is for tensor ", chunk.tensor(),
                                  "; ", tensors_.size(), " are announced"));
  }
  Arriving& arriving = tensors_[chunk.tensor()];
  const int64_t size = static_cast<int64_t>(chunk.data().size());
  if (size == 0 || size > arriving.size - arriving.received) {
    return Malformed(absl::StrCat(Describe(arriving.role, arriving.name),
                                  ": a chunk of ", size, " bytes after ",
                                  arriving.received, " of ", arriving.size));
  }
  if (arriving.received == 0) {
    arriving.tensor.data = Buffer::Allocate(arriving.size);
  }
  std::memcpy(arriving.tensor.data.mutable_data() + arriving.received,
              chunk.data().data(), size);
  arriving.received += size;
  missing_bytes_ -= size;
  return absl::OkStatus();
}

absl::Status StreamedInputs::CheckComplete() const {
  std::vector<std::string> missing;
  for (const Arriving& arriving : tensors_) {
    if (arriving.received == arriving.size) continue;
    missing.push_back(absl::StrCat(Describe(arriving.role, arriving.name),
                                   " has ", arriving.received, " of ",
                                   arriving.size, " bytes"));
    if (missing.size() == 8) break;  // enough to see what went wrong
  }
  if (missing.empty()) return absl::OkStatus();
  return Malformed(absl::StrCat("the stream ended too early: ",
                                absl::StrJoin(missing, ", ")));
}

CallInputs StreamedInputs::Take() {
  CallInputs inputs;
  for (Arriving& arriving : tensors_) {
    auto& into = arriving.role == v1::TARGET ? inputs.targets : inputs.inputs;
    into[arriving.name] = std::move(arriving.tensor);
  }
  return inputs;
}

}  // namespace pipestage
