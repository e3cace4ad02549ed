#include "client/output_assembler.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tensor/tensor_codec.h"

namespace pipestage {

absl::Status OutputAssembler::Begin(const v1::OutputHeader& header) {
  if (begun_) return absl::DataLossError("the server announced outputs twice");
  begun_ = true;
  for (const v1::TensorAnnouncement& announcement : header.tensors()) {
    PIPESTAGE_RETURN_IF_ERROR(Announce(announcement));
  }
  for (Output& output : outputs_) {
    PIPESTAGE_ASSIGN_OR_RETURN(
        const int64_t bytes,
        NumBytes(output.tensor.dtype, output.tensor.shape));
    output.tensor.data = Buffer::Allocate(static_cast<size_t>(bytes));
  }
  return absl::OkStatus();
}

absl::Status OutputAssembler::Announce(
    const v1::TensorAnnouncement& announcement) {
  for (const Output& other : outputs_) {
    if (other.name == announcement.name()) {
      return absl::DataLossError(absl::StrCat("the server announced output \"",
                                              other.name, "\" twice"));
    }
  }
  Output output;
  output.name = announcement.name();
  const v1::TensorSpec& spec = announcement.spec();
  if (absl::Status valid =
          ValidateSpec(absl::StrCat("output \"", output.name, "\""), spec);
      !valid.ok()) {
    return absl::DataLossError(valid.message());
  }
  PIPESTAGE_ASSIGN_OR_RETURN(output.tensor.dtype, DTypeFromProto(spec.dtype()));
  output.tensor.shape.assign(spec.shape().begin(), spec.shape().end());
  PIPESTAGE_ASSIGN_OR_RETURN(
      const int64_t bytes, NumBytes(output.tensor.dtype, output.tensor.shape));
  if (bytes > max_bytes_ - announced_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the outputs are larger than ", max_bytes_, " bytes (\"", output.name,
        "\" alone is ", bytes, "); ask for fewer outputs or fewer rows"));
  }
  announced_bytes_ += bytes;
  outputs_.push_back(std::move(output));
  return absl::OkStatus();
}

absl::Status OutputAssembler::AddChunk(const v1::TensorChunk& chunk) {
  if (chunk.tensor() < 0 ||
      chunk.tensor() >= static_cast<int64_t>(outputs_.size())) {
    return absl::DataLossError(absl::StrCat("the server sent bytes of output ",
                                            chunk.tensor(), ", but announced ",
                                            outputs_.size()));
  }
  Output& output = outputs_[chunk.tensor()];
  const size_t size = output.tensor.data.size();
  if (chunk.data().size() > size - output.received) {
    return absl::DataLossError(absl::StrCat(
        "the server sent ", output.received + chunk.data().size(),
        " bytes of output \"", output.name, "\", which has ", size));
  }
  if (!chunk.data().empty()) {
    std::memcpy(output.tensor.data.mutable_data() + output.received,
                chunk.data().data(), chunk.data().size());
  }
  output.received += chunk.data().size();
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, HostTensor>> OutputAssembler::Finish() && {
  std::map<std::string, HostTensor> tensors;
  for (Output& output : outputs_) {
    if (output.received != output.tensor.data.size()) {
      return absl::DataLossError(absl::StrCat(
          "the server sent ", output.received, " bytes of output \"",
          output.name, "\", which has ", output.tensor.data.size()));
    }
    tensors.emplace(std::move(output.name), std::move(output.tensor));
  }
  return tensors;
}

}  // namespace pipestage
