#include "worker/communicator_slot.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

// Requests of one rendezvous; the next one's ids begin behind them.
constexpr int64_t kRequestsPerRendezvous = int64_t{1} << 32;

}  // namespace

void CommunicatorSlot::Expect(Generation generation) {
  End(generation - 1, absl::CancelledError(absl::StrCat(
                          "generation ", generation.value(), " follows")));
  absl::MutexLock lock(&mu_);
  generation_ = generation;
  rendezvous_ = std::make_shared<LinkRendezvous>(
      outbox_, num_rendezvous_++ * kRequestsPerRendezvous);
}

absl::StatusOr<std::shared_ptr<Communicator>> CommunicatorSlot::Form(
    const v1::FormCommunicator& form) {
  const Generation generation(form.generation());
  const absl::Status over = absl::CancelledError(
      absl::StrCat("generation ", generation.value(), " is over"));
  std::shared_ptr<LinkRendezvous> rendezvous;
  {
    absl::MutexLock lock(&mu_);
    if (generation_ == generation) rendezvous = rendezvous_;
  }
  if (rendezvous == nullptr) return over;

  CommunicatorOptions options;
  options.rank = Rank(form.rank());
  options.size = form.num_ranks();
  options.generation = generation;
  if (form.timeout_s() > 0) options.timeout = absl::Seconds(form.timeout_s());
  options.prefix = form.store_prefix();
  options.rendezvous = rendezvous.get();
  options.host = host_;
  options.network_interface = network_interface_;
  absl::StatusOr<std::shared_ptr<Communicator>> communicator =
      factory_(form.backend(), options);

  absl::MutexLock lock(&mu_);
  if (rendezvous_ != rendezvous) {
    if (communicator.ok()) (*communicator)->Abort(over);
    return over;
  }
  PIPESTAGE_RETURN_IF_ERROR(communicator.status());
  communicator_ = *communicator;
  return communicator;
}

void CommunicatorSlot::End(Generation last, const absl::Status& reason) {
  std::shared_ptr<LinkRendezvous> rendezvous;
  std::shared_ptr<Communicator> communicator;
  {
    absl::MutexLock lock(&mu_);
    if (generation_ > last) return;
    rendezvous = std::move(rendezvous_);
    communicator = std::move(communicator_);
  }
  if (rendezvous != nullptr) rendezvous->Close(reason.message());
  if (communicator != nullptr) communicator->Abort(reason);
}

void CommunicatorSlot::OnValue(v1::StoreValue value) {
  std::shared_ptr<LinkRendezvous> rendezvous;
  {
    absl::MutexLock lock(&mu_);
    rendezvous = rendezvous_;
  }
  if (rendezvous != nullptr) rendezvous->OnValue(std::move(value));
}

}  // namespace pipestage
