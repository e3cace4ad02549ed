#include "coordinator/merged_output.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/status_macros.h"
#include "tensor/split_merge.h"
#include "tensor/tensor_codec.h"

namespace pipestage {

MergedOutput::MergedOutput(const OutputLayout& layout,
                           const Microbatches& microbatches, int64_t max_bytes,
                           v1::Tensor* out)
    : layout_(layout),
      microbatches_(microbatches),
      num_large_(microbatches.total_rows() % microbatches.count() == 0
                     ? microbatches.count()
                     : microbatches.total_rows() % microbatches.count()),
      max_bytes_(max_bytes),
      out_(out),
      received_(microbatches.count(), false) {
  if (layout.data_dependent) {
    parts_.resize(microbatches.count());
    return;
  }
  out_->set_dtype(ToProto(layout.contract->dtype));
  row_bytes_ = static_cast<int64_t>(ElementSize(layout.contract->dtype));
  for (int k = 0; k < static_cast<int>(layout.merged.size()); ++k) {
    out_->add_shape(layout.merged[k]);
    if (k < layout.axis) outer_ *= layout.merged[k];
    if (k > layout.axis) row_bytes_ *= layout.merged[k];
  }
  if (outer_ == 1) {
    // Parts that come in order are appended: no byte is written twice.
    out_->mutable_data()->reserve(layout.merged_bytes);
  } else {
    out_->mutable_data()->resize(layout.merged_bytes);
  }
}

absl::StatusOr<bool> MergedOutput::MarkReceived(int64_t first, int64_t count) {
  if (first < 0 || count < 1 || first > microbatches_.count() - count) {
    return absl::InternalError(
        absl::StrCat("output ", name(), " came for microbatches [", first, ", ",
                     first + count, ") of ", microbatches_.count()));
  }
  int64_t known = 0;
  for (int64_t m = first; m < first + count; ++m) known += received_[m];
  if (known == count) return false;
  if (known > 0) {
    return absl::InternalError(
        absl::StrCat("output ", name(), " for microbatches [", first, ", ",
                     first + count, ") came in part before"));
  }
  std::fill_n(received_.begin() + first, count, true);
  num_received_ += count;
  return true;
}

absl::StatusOr<bool> MergedOutput::Add(v1::OutputData& data) {
  PIPESTAGE_ASSIGN_OR_RETURN(
      const bool is_new,
      MarkReceived(data.first_microbatch(), data.num_microbatches()));
  if (!is_new) return false;
  PIPESTAGE_RETURN_IF_ERROR(layout_.data_dependent ? KeepParts(data)
                                                   : Place(data));
  return true;
}

int64_t MergedOutput::FirstIndex(int64_t microbatch) const {
  const int64_t large = std::min(microbatch, num_large_);
  return large * layout_.extent(true) +
         (microbatch - large) * layout_.extent(false);
}

absl::Status MergedOutput::Place(v1::OutputData& data) {
  const int64_t first = data.first_microbatch();
  const int64_t end = first + data.num_microbatches();
  std::string& bytes = *data.mutable_data();
  const int64_t num_rows = FirstIndex(end) - FirstIndex(first);
  const int64_t expected = num_rows * row_bytes_ * outer_;
  if (static_cast<int64_t>(bytes.size()) != expected) {
    return absl::InternalError(absl::StrCat(
        "output ", name(), " for microbatches [", first, ", ", end, ") has ",
        bytes.size(), " bytes; the contract says ", expected));
  }
  if (outer_ == 1) {
    PlaceContiguous(bytes, FirstIndex(first) * row_bytes_);
    return absl::OkStatus();
  }
  const char* from = bytes.data();
  const size_t block = layout_.merged[layout_.axis] * row_bytes_;
  for (int64_t m = first; m < end; ++m) {
    const size_t run = (FirstIndex(m + 1) - FirstIndex(m)) * row_bytes_;
    char* to = out_->mutable_data()->data() + FirstIndex(m) * row_bytes_;
    for (int64_t o = 0; o < outer_ && run > 0; ++o) {
      std::memcpy(to, from, run);
      to += block;
      from += run;
    }
  }
  return absl::OkStatus();
}

void MergedOutput::PlaceContiguous(std::string& bytes, size_t offset) {
  std::string& merged = *out_->mutable_data();
  if (merged.empty() &&
      static_cast<int64_t>(bytes.size()) == layout_.merged_bytes) {
    merged = std::move(bytes);
  } else if (offset == merged.size()) {
    merged.append(bytes);
  } else {
    if (merged.size() < offset + bytes.size()) {
      merged.resize(offset + bytes.size());
    }
    merged.replace(offset, bytes.size(), bytes);
  }
}

absl::StatusOr<HostTensor> MergedOutput::TakePart(const v1::TensorSpec& spec,
                                                  const Buffer& bytes,
                                                  size_t offset) const {
  HostTensor part;
  part.dtype = layout_.contract->dtype;
  part.shape.assign(spec.shape().begin(), spec.shape().end());
  bool fits = spec.dtype() == ToProto(part.dtype) &&
              part.shape.size() == layout_.large_part.size();
  for (size_t k = 0; fits && k < part.shape.size(); ++k) {
    // Row counts differ between microbatches; either of the two will do here,
    // and Concatenate compares the rest.
    fits = layout_.large_part[k] < 0 ||
           part.shape[k] == layout_.large_part[k] ||
           part.shape[k] == layout_.small_part[k];
  }
  const auto size = NumBytes(part.dtype, part.shape);
  if (!fits || !size.ok() ||
      *size > static_cast<int64_t>(bytes.size() - offset)) {
    return absl::InternalError(
        absl::StrCat("a part of output ", name(), " is ",
                     Describe(part.dtype, part.shape).substr(0, 256), " with ",
                     bytes.size() - offset, " bytes; the contract says ",
                     Describe(part.dtype, layout_.large_part), " (-1: any)"));
  }
  part.data = bytes.Slice(offset, *size);
  return part;
}

absl::Status MergedOutput::KeepParts(v1::OutputData& data) {
  const int64_t first = data.first_microbatch();
  parts_bytes_ += static_cast<int64_t>(data.data().size());
  if (parts_bytes_ > max_bytes_) {
    return WithReason(
        absl::ResourceExhaustedError(
            absl::StrCat("output ", name(), " passes the limit of ", max_bytes_,
                         " bytes; use StreamEval or return_outputs=false")),
        reason::kMessageTooLarge);
  }
  if (data.parts_size() != data.num_microbatches()) {
    return absl::InternalError(
        absl::StrCat("output ", name(), " came with ", data.parts_size(),
                     " shapes for ", data.num_microbatches(), " microbatches"));
  }
  const Buffer bytes = Buffer::FromString(std::move(*data.mutable_data()));
  size_t offset = 0;
  for (int i = 0; i < data.parts_size(); ++i) {
    PIPESTAGE_ASSIGN_OR_RETURN(parts_[first + i],
                               TakePart(data.parts(i), bytes, offset));
    offset += parts_[first + i].data.size();
  }
  if (offset == bytes.size()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("output ", name(), " came with ",
                                          bytes.size(),
                                          " bytes; its shapes say ", offset));
}

absl::Status MergedOutput::Finish() {
  if (!layout_.data_dependent) return absl::OkStatus();
  if (layout_.stacked) {
    for (HostTensor& part : parts_) part.shape.insert(part.shape.begin(), 1);
  }
  auto merged = Concatenate(parts_, layout_.axis);
  parts_.clear();
  if (!merged.ok()) {
    return WithReason(absl::AbortedError(absl::StrCat(
                          "output ", name(),
                          " cannot be merged: ", merged.status().message())),
                      reason::kShapeMismatch);
  }
  *out_ = EncodeTensor(*merged);
  return absl::OkStatus();
}

}  // namespace pipestage
