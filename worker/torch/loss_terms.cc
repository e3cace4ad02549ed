#include "worker/torch/loss_terms.h"

#include <algorithm>
#include <vector>

#include "ATen/ops/cross_entropy_loss.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/mse_loss.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tensor/host_tensor.h"
#include "worker/torch/exact_terms.h"
#include "worker/torch/torch_tensor.h"

namespace pipestage {
namespace {

// At most so many logits at a time: intermediate results stay in the cache's
// reach, and a large vocabulary takes no second copy of all logits.
constexpr int64_t kMaxLogits = int64_t{1} << 20;

std::string ShapeOf(const at::Tensor& tensor) {
  return ShapeToString(
      {tensor.sizes().data(), static_cast<size_t>(tensor.dim())});
}

at::Tensor ToHost(const at::Tensor& tensor) {
  return tensor.to(c10::kCPU).contiguous();
}

// float64 stays; all else is computed in float32.
at::Tensor AsFloat(const at::Tensor& tensor) {
  return tensor.scalar_type() == c10::ScalarType::Double
             ? tensor
             : tensor.to(c10::ScalarType::Float);
}

// 1 for every target that counts. Aborted for a target that is no class:
// kernels check that late or, on a GPU, in a way that ends the process.
absl::StatusOr<at::Tensor> TargetWeights(const at::Tensor& targets,
                                         int64_t classes,
                                         int64_t ignore_index) {
  at::Tensor weights = at::empty(targets.sizes(), targets.options());
  const int64_t* const target = targets.const_data_ptr<int64_t>();
  int64_t* const weight = weights.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < targets.numel(); ++i) {
    weight[i] = target[i] != ignore_index;
    if (weight[i] != 0 && (target[i] < 0 || target[i] >= classes)) {
      return absl::AbortedError(
          absl::StrCat("target ", target[i], " (element ", i,
                       " of the microbatch) is no class: there are ", classes,
                       " classes, and ", ignore_index, " means to ignore"));
    }
  }
  return weights;
}

// Losses of [n, classes] logits, a block of rows at a time.
at::Tensor CrossEntropyInBlocks(const at::Tensor& logits,
                                const at::Tensor& targets,
                                int64_t ignore_index) {
  const int64_t rows = logits.size(0);
  const int64_t block =
      std::max<int64_t>(1, kMaxLogits / std::max<int64_t>(1, logits.size(1)));
  at::Tensor losses = at::empty(
      {rows},
      logits.options().dtype(logits.scalar_type() == c10::ScalarType::Double
                                 ? c10::ScalarType::Double
                                 : c10::ScalarType::Float));
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t count = std::min(block, rows - first);
    losses.narrow(0, first, count)
        .copy_(at::cross_entropy_loss(AsFloat(logits.narrow(0, first, count)),
                                      targets.narrow(0, first, count),
                                      /*weight=*/{}, at::Reduction::None,
                                      ignore_index));
  }
  return losses;
}

bool IsIntegral(const at::Tensor& tensor) {
  return c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

absl::Status CheckProgramWeights(const at::Tensor& losses,
                                 const at::Tensor& weights) {
  if (!IsIntegral(weights)) {
    return absl::AbortedError(absl::StrCat("the loss program's weights are ",
                                           c10::toString(weights.scalar_type()),
                                           "; they must be integers or bool"));
  }
  if (weights.sizes() != losses.sizes()) {
    return absl::AbortedError(absl::StrCat("the loss program's weights are ",
                                           ShapeOf(weights), ", its losses ",
                                           ShapeOf(losses)));
  }
  return absl::OkStatus();
}

absl::Status CheckWeights(const at::Tensor& weights) {
  const int64_t* const weight = weights.const_data_ptr<int64_t>();
  int64_t total = 0;
  for (int64_t i = 0; i < weights.numel(); ++i) {
    const bool fits = weight[i] >= 0 && weight[i] <= ExactTerms::kMaxWeight;
    if (!fits || __builtin_add_overflow(total, weight[i], &total)) {
      return absl::AbortedError(absl::StrCat("the loss program's weight ",
                                             weight[i], " is out of range"));
    }
  }
  return absl::OkStatus();
}

// Elements as they lie in memory: element i belongs to row (i / inner) % rows.
struct Layout {
  int64_t count;
  int64_t inner;
  int64_t rows;
};

// Calls fn(row, term, weight) for every term.
template <typename T, typename Fn>
void ForEachTerm(const LossTerms& terms, const Layout& layout, Fn fn) {
  const T* const losses = terms.losses.const_data_ptr<T>();
  const int64_t* const weights = terms.weights.defined()
                                     ? terms.weights.const_data_ptr<int64_t>()
                                     : nullptr;
  int64_t row = 0;
  int64_t in_row = 0;
  for (int64_t i = 0; i < layout.count; ++i) {
    fn(row, static_cast<double>(losses[i]),
       weights == nullptr ? int64_t{1} : weights[i]);
    if (++in_row == layout.inner) {
      in_row = 0;
      if (++row == layout.rows) row = 0;
    }
  }
}

template <typename T>
MicrobatchLossValue Sum(const LossTerms& terms, const Layout& layout) {
  ExactTerms total;
  ForEachTerm<T>(terms, layout, [&](int64_t row, double term, int64_t weight) {
    total.Add(term, weight);
  });
  MicrobatchLossValue value;
  value.total = total.Total();
  return value;
}

template <typename T>
MicrobatchLossValue SumByRow(const LossTerms& terms, const Layout& layout) {
  std::vector<ExactTerms> rows(layout.rows);
  ForEachTerm<T>(terms, layout, [&](int64_t row, double term, int64_t weight) {
    rows[row].Add(term, weight);
  });
  MicrobatchLossValue value;
  for (const ExactTerms& row : rows) {
    const LossSum sum = row.Total();
    value.row_sums.push_back(sum.sum.Round());
    value.row_weights.push_back(sum.weight);
    value.total.Add(sum);
  }
  return value;
}

template <typename T>
MicrobatchLossValue SumAs(const LossTerms& terms, const Layout& layout,
                          bool want_rows) {
  return want_rows ? SumByRow<T>(terms, layout) : Sum<T>(terms, layout);
}

}  // namespace

absl::StatusOr<LossTerms> CrossEntropyTerms(const at::Tensor& logits,
                                            const at::Tensor& targets,
                                            int64_t ignore_index) {
  if (!logits.is_floating_point() || logits.dim() < 1 || !IsIntegral(targets) ||
      logits.sizes().slice(0, logits.dim() - 1) != targets.sizes()) {
    return absl::AbortedError(absl::StrCat(
        "cross entropy takes logits [..., classes] and integer targets [...]; "
        "these are ",
        c10::toString(logits.scalar_type()), " ", ShapeOf(logits), " and ",
        c10::toString(targets.scalar_type()), " ", ShapeOf(targets)));
  }
  const int64_t classes = logits.size(-1);
  const at::Tensor host_targets = ToHost(targets).to(c10::ScalarType::Long);
  LossTerms terms;
  PIPESTAGE_ASSIGN_OR_RETURN(
      terms.weights, TargetWeights(host_targets, classes, ignore_index));
  const at::Tensor losses = CrossEntropyInBlocks(
      logits.reshape({targets.numel(), classes}),
      host_targets.to(logits.device()).reshape({targets.numel()}),
      ignore_index);
  terms.losses = ToHost(losses).reshape(targets.sizes());
  return terms;
}

absl::StatusOr<LossTerms> SquaredErrorTerms(const at::Tensor& prediction,
                                            const at::Tensor& target) {
  if (!prediction.is_floating_point() || prediction.sizes() != target.sizes()) {
    return absl::AbortedError(absl::StrCat(
        "the mean squared error is of floating-point tensors of one shape; "
        "these are ",
        c10::toString(prediction.scalar_type()), " ", ShapeOf(prediction),
        " and ", c10::toString(target.scalar_type()), " ", ShapeOf(target)));
  }
  const c10::ScalarType type =
      prediction.scalar_type() == c10::ScalarType::Double ||
              target.scalar_type() == c10::ScalarType::Double
          ? c10::ScalarType::Double
          : c10::ScalarType::Float;
  LossTerms terms;
  terms.losses = ToHost(at::mse_loss(prediction.to(type),
                                     target.to(prediction.device()).to(type),
                                     at::Reduction::None));
  return terms;
}

absl::StatusOr<LossTerms> ProgramTerms(const std::vector<at::Tensor>& results,
                                       int64_t rows) {
  if (results.size() != 1 && results.size() != 2) {
    return absl::AbortedError(
        absl::StrCat("the loss program returned ", results.size(),
                     " tensors; it returns losses and maybe their weights"));
  }
  const at::Tensor& losses = results[0];
  if (!losses.is_floating_point() || losses.dim() < 1 ||
      losses.size(0) != rows) {
    return absl::AbortedError(absl::StrCat(
        "the loss program returned ", c10::toString(losses.scalar_type()), " ",
        ShapeOf(losses), "; losses are floating-point [", rows, ", ...]"));
  }
  LossTerms terms;
  terms.losses = ToHost(AsFloat(losses));
  if (results.size() == 2) {
    PIPESTAGE_RETURN_IF_ERROR(CheckProgramWeights(losses, results[1]));
    terms.weights = ToHost(results[1]).to(c10::ScalarType::Long);
    PIPESTAGE_RETURN_IF_ERROR(CheckWeights(terms.weights));
  }
  return terms;
}

absl::StatusOr<MicrobatchLossValue> SumTerms(const LossTerms& terms,
                                             int64_t rows, bool want_rows) {
  const at::IntArrayRef sizes = terms.losses.sizes();
  Layout layout{terms.losses.numel(), 1, 1};
  if (want_rows) {
    if (terms.row_axis >= static_cast<int>(sizes.size()) ||
        sizes[terms.row_axis] != rows) {
      return absl::AbortedError(absl::StrCat("losses ", ShapeOf(terms.losses),
                                             " have no axis of ", rows,
                                             " rows, so rows have no losses"));
    }
    layout.rows = rows;
    for (size_t i = terms.row_axis + 1; i < sizes.size(); ++i) {
      layout.inner *= sizes[i];
    }
  }
  return terms.losses.scalar_type() == c10::ScalarType::Double
             ? SumAs<double>(terms, layout, want_rows)
             : SumAs<float>(terms, layout, want_rows);
}

}  // namespace pipestage
