#include "coordinator/loss_collector.h"

#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

// An int64 or double tensor with one element a row.
void BeginRows(v1::DType dtype, int64_t rows, v1::Tensor* tensor) {
  tensor->set_dtype(dtype);
  tensor->add_shape(rows);
  tensor->mutable_data()->resize(rows * 8);
}

template <typename T>
void CopyRows(const google::protobuf::RepeatedField<T>& values, int64_t from,
              int64_t count, int64_t first_row, v1::Tensor* tensor) {
  static_assert(sizeof(T) == 8);
  if (count == 0) return;
  std::memcpy(tensor->mutable_data()->data() + first_row * sizeof(T),
              values.data() + from, count * sizeof(T));
}

}  // namespace

v1::Loss EncodeLoss(const LossSum& loss) {
  v1::Loss out;
  out.set_sum(loss.sum.Round());
  out.set_weight(loss.weight);
  out.set_nonfinite(loss.nonfinite);
  if (loss.weight != 0) {
    out.set_mean(out.sum() / static_cast<double>(loss.weight));
  }
  return out;
}

LossCollector::LossCollector(const Microbatches& microbatches, bool row_losses,
                             v1::EvalResponse* reply)
    : microbatches_(microbatches),
      row_losses_(row_losses),
      reply_(reply),
      losses_(microbatches.count()),
      received_(microbatches.count(), false) {
  if (!row_losses) return;
  BeginRows(v1::FLOAT64, microbatches.total_rows(),
            reply->mutable_row_losses());
  BeginRows(v1::INT64, microbatches.total_rows(), reply->mutable_row_weights());
}

absl::Status LossCollector::Check(const v1::LossReport& report) const {
  const int64_t first = report.first_microbatch();
  const int64_t count = report.weights_size();
  if (first < 0 || count < 1 || first > microbatches_.count() - count) {
    return absl::InternalError(absl::StrCat("losses came for microbatches [",
                                            first, ", ", first + count, ") of ",
                                            microbatches_.count()));
  }
  int64_t partials = 0;
  for (const int32_t size : report.partial_counts()) {
    if (size < 0) return absl::InternalError("a loss has a negative size");
    partials += size;
  }
  int64_t rows = 0;
  for (int64_t m = first; row_losses_ && m < first + count; ++m) {
    rows += microbatches_.rows(MicrobatchIndex(static_cast<int32_t>(m)));
  }
  if (report.partial_counts_size() != count ||
      report.nonfinite_size() != count || report.partials_size() != partials ||
      (row_losses_ &&
       (report.row_sums_size() != rows || report.row_weights_size() != rows))) {
    return absl::InternalError(absl::StrCat(
        "losses of ", count, " microbatches came with ",
        report.partial_counts_size(), " sums of ", partials, " parts (",
        report.partials_size(), " there), ", report.nonfinite_size(),
        " counts, ", report.row_sums_size(), " row losses and ",
        report.row_weights_size(), " row weights; ", rows,
        " rows were asked for"));
  }
  return absl::OkStatus();
}

void LossCollector::PlaceRows(const v1::LossReport& report, int64_t from,
                              MicrobatchIndex microbatch) {
  const int64_t count = microbatches_.rows(microbatch);
  const int64_t first_row = microbatches_.first_row(microbatch);
  CopyRows(report.row_sums(), from, count, first_row,
           reply_->mutable_row_losses());
  CopyRows(report.row_weights(), from, count, first_row,
           reply_->mutable_row_weights());
}

absl::StatusOr<std::vector<v1::MicrobatchLoss>> LossCollector::Add(
    const v1::LossReport& report) {
  PIPESTAGE_RETURN_IF_ERROR(Check(report));
  std::vector<v1::MicrobatchLoss> added;
  const double* partials = report.partials().data();
  int64_t from_row = 0;
  for (int i = 0; i < report.weights_size(); ++i) {
    const MicrobatchIndex m(report.first_microbatch() + i);
    const int num_partials = report.partial_counts(i);
    const auto sum =
        ExactSum::FromPartials(absl::MakeConstSpan(partials, num_partials));
    if (!sum.ok()) return absl::InternalError(sum.status().message());
    partials += num_partials;
    const int64_t rows = microbatches_.rows(m);
    if (!received_[m.value()]) {
      received_[m.value()] = true;
      ++num_received_;
      losses_[m.value()] = {*sum, report.weights(i), report.nonfinite(i)};
      if (row_losses_) PlaceRows(report, from_row, m);
      v1::MicrobatchLoss loss;
      loss.set_microbatch(m.value());
      loss.set_first_row(microbatches_.first_row(m));
      loss.set_rows(rows);
      *loss.mutable_loss() = EncodeLoss(losses_[m.value()]);
      added.push_back(std::move(loss));
    }
    from_row += rows;
  }
  return added;
}

void LossCollector::Finish() {
  LossSum total;
  reply_->mutable_microbatches()->Reserve(microbatches_.count());
  for (int32_t m = 0; m < microbatches_.count(); ++m) {
    total.Add(losses_[m]);
    auto* loss = reply_->add_microbatches();
    loss->set_microbatch(m);
    loss->set_first_row(microbatches_.first_row(MicrobatchIndex(m)));
    loss->set_rows(microbatches_.rows(MicrobatchIndex(m)));
    *loss->mutable_loss() = EncodeLoss(losses_[m]);
  }
  *reply_->mutable_loss() = EncodeLoss(total);
}

}  // namespace pipestage
