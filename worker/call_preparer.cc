#include "worker/call_preparer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

constexpr size_t kMaxJoined = 256;

Sizes SizesOf(const v1::Run& run) {
  Sizes sizes;
  for (const v1::NamedSize& size : run.sizes()) {
    sizes.Set(size.name(), size.size());
  }
  return sizes;
}

CallWishes WishesOf(const v1::Run& run) {
  CallWishes wishes;
  wishes.outputs.assign(run.outputs().begin(), run.outputs().end());
  wishes.with_loss = run.with_loss();
  wishes.row_losses = run.row_losses();
  wishes.timeline = run.timeline();
  wishes.report_progress = run.report_progress();
  return wishes;
}

}  // namespace

CallPreparer::Refusal CallPreparer::Prepare(const v1::Run& run,
                                            std::shared_ptr<CallInbox> inbox,
                                            PreparedCall& call) {
  call.generation = Generation(run.generation());
  call.inbox = std::move(inbox);
  call.wishes = WishesOf(run);

  auto plan = plans_->Find(run.plan_id());
  if (!plan.ok()) return {plan.status(), false};
  call.plan = *std::move(plan);
  auto model = models_->Find({run.model(), run.version(), run.digest()});
  if (!model.ok()) return {model.status(), false};
  call.model = *std::move(model);
  absl::StatusOr<Joined*> joined = Join(call.plan, call.model);
  if (!joined.ok()) return {joined.status(), false};
  call.prepared = (*joined)->prepared;

  const Sizes sizes = SizesOf(run);
  auto& shapes = (*joined)->last_shapes;
  if (shapes == nullptr || !shapes->IsFor(sizes, run.rows())) {
    auto resolved = CallShapes::Resolve(
        *call.model->contract, sizes, run.rows(), call.plan->num_microbatches);
    if (!resolved.ok()) {
      return {WithReason(resolved.status(), reason::kShapeMismatch), true};
    }
    shapes = *std::move(resolved);
  }
  call.shapes = shapes;
  return {};
}

absl::StatusOr<CallPreparer::Joined*> CallPreparer::Join(
    const std::shared_ptr<const RankPlan>& plan,
    const std::shared_ptr<const LoadedModel>& model) {
  const auto it =
      std::find_if(joined_.rbegin(), joined_.rend(), [&](const auto& joined) {
        return joined->plan.lock() == plan && joined->model.lock() == model;
      });
  if (it != joined_.rend()) {
    std::rotate(it.base() - 1, it.base(), joined_.end());
    return joined_.back().get();
  }
  std::erase_if(joined_, [](const auto& joined) {
    return joined->plan.expired() || joined->model.expired();
  });
  if (joined_.size() >= kMaxJoined) joined_.erase(joined_.begin());
  auto joined = std::make_unique<Joined>();
  joined->plan = plan;
  joined->model = model;
  PIPESTAGE_ASSIGN_OR_RETURN(joined->prepared,
                             PreparedPlan::Create(*plan, *model->contract));
  joined_.push_back(std::move(joined));
  return joined_.back().get();
}

}  // namespace pipestage
