#include "coordinator/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_info.h"
#include "base/plain_text.h"
#include "proto/protocol_version.h"

namespace pipestage {
namespace {

// The coordinator gives up on a formation later than its members do, so that
// their own account of what went wrong has arrived.
constexpr absl::Duration kFormationSlack = absl::Seconds(5);
// A generation that lasted so long was a good one: back-off starts anew.
constexpr absl::Duration kStableAfter = absl::Seconds(10);

v1::CoordinatorMessage AbortMessage(Generation generation,
                                    const absl::Status& cause) {
  v1::CoordinatorMessage message;
  auto* abort = message.mutable_abort_communicator();
  abort->set_generation(generation.value());
  abort->set_reason(std::string(cause.message()));
  return message;
}

}  // namespace

std::string DescribeWorker(const std::string& name, Rank rank) {
  return absl::StrCat("worker ", name, " (rank ", rank.value(), ")");
}

Membership::Membership(Options options)
    : options_(std::move(options)),
      members_(options_.num_ranks),
      backoff_(options_.first_backoff) {}

absl::StatusOr<Rank> Membership::ChooseRank(const v1::Hello& hello,
                                            absl::Time now) {
  const int32_t wanted = hello.requested_rank();
  if (wanted >= options_.num_ranks || wanted < -1) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker ", hello.name(), " asks for rank ", wanted,
                     "; the pipeline has ranks 0 to ", options_.num_ranks - 1));
  }
  for (const auto& member : members_) {
    // The same process dials again before we noticed that its stream broke.
    if (member && member->incarnation.value() == hello.incarnation() &&
        (wanted == -1 || wanted == member->rank.value())) {
      return member->rank;
    }
  }
  if (wanted >= 0) {
    const auto& holder = members_[wanted];
    if (!holder || now - holder->last_heard > options_.replace_after) {
      return Rank(wanted);
    }
    return absl::AlreadyExistsError(absl::StrCat(
        "rank ", wanted, " is taken by worker ", holder->name, ", heard ",
        absl::FormatDuration(now - holder->last_heard), " ago"));
  }
  for (int r = 0; r < options_.num_ranks; ++r) {
    if (!members_[r]) return Rank(r);
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("the pipeline has all its ", options_.num_ranks,
                   " workers; worker ", hello.name(), " is a spare"));
}

absl::StatusOr<Rank> Membership::Attach(AttachmentId attachment,
                                        const v1::Hello& hello, absl::Time now,
                                        Effects& effects) {
  if (hello.protocol_version() != kWorkerLinkProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", hello.name(), " speaks version ", hello.protocol_version(),
        " of the worker link; this coordinator speaks ",
        kWorkerLinkProtocolVersion));
  }
  if (hello.feed_window_bytes() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker ", hello.name(), " lets itself be fed ",
        hello.feed_window_bytes(), " bytes ahead; at least 1 is needed"));
  }
  auto chosen = ChooseRank(hello, now);
  if (!chosen.ok()) return chosen.status();
  const Rank rank = *chosen;
  if (const auto& old = members_[rank.value()]) {
    const absl::Status replaced =
        absl::AbortedError(absl::StrCat("replaced by worker ", hello.name(),
                                        ", incarnation ", hello.incarnation()));
    effects.closes.emplace_back(old->attachment, replaced);
    Remove(rank, replaced, now, effects);
  }
  Member member;
  member.attachment = attachment;
  member.rank = rank;
  member.name = ToUtf8(hello.name(), 256);
  member.incarnation = Incarnation(hello.incarnation());
  member.device = ToUtf8(hello.device(), 256);
  member.backends.assign(hello.backends().begin(), hello.backends().end());
  member.attached_at = member.last_heard = now;
  members_[rank.value()] = std::move(member);

  v1::CoordinatorMessage message;
  auto* welcome = message.mutable_welcome();
  welcome->set_rank(rank.value());
  welcome->set_num_ranks(options_.num_ranks);
  welcome->set_epoch(options_.epoch.value());
  welcome->set_ping_interval_s(absl::ToDoubleSeconds(options_.ping_interval));
  effects.messages.emplace_back(attachment, std::move(message));
  effects.changed = true;
  FormWhenPossible(now, effects);
  return rank;
}

const Membership::Member* Membership::Find(AttachmentId attachment) const {
  for (const auto& member : members_) {
    if (member && member->attachment == attachment) return &*member;
  }
  return nullptr;
}

Membership::Member* Membership::FindMutable(AttachmentId attachment) {
  return const_cast<Member*>(Find(attachment));
}

void Membership::Detach(AttachmentId attachment, const absl::Status& why,
                        absl::Time now, Effects& effects) {
  const Member* member = Find(attachment);
  if (member == nullptr) return;
  Remove(member->rank, why, now, effects);
  FormWhenPossible(now, effects);
}

void Membership::Remove(Rank rank, const absl::Status& why, absl::Time now,
                        Effects& effects) {
  const Member gone = *members_[rank.value()];
  members_[rank.value()].reset();
  effects.changed = true;
  if (state_ == State::kWaiting) return;
  suspected_.reset();  // this loss is the cause
  EndGeneration(
      WithReason(absl::UnavailableError(
                     absl::StrCat(DescribeWorker(gone.name, rank),
                                  gone.leaving ? " has left" : " was lost",
                                  why.ok() ? "" : ": ", why.message())),
                 reason::kWorkerLost,
                 {{"worker", gone.name}, {"rank", absl::StrCat(rank.value())}}),
      now, /*back_off=*/false, effects);
}

void Membership::EndGeneration(absl::Status cause, absl::Time now,
                               bool back_off, Effects& effects) {
  for (auto& member : members_) {
    if (!member) continue;
    member->formed = false;
    effects.messages.emplace_back(member->attachment,
                                  AbortMessage(generation_, cause));
  }
  if (state_ == State::kReady && now - ready_since_ > kStableAfter) {
    backoff_ = options_.first_backoff;
  }
  if (back_off) {
    not_before_ = now + backoff_;
    backoff_ = std::min(backoff_ * 2, options_.max_backoff);
  }
  state_ = State::kWaiting;
  store_prefix_.clear();
  suspected_.reset();
  form_deadline_ = absl::InfiniteFuture();
  last_failure_ = std::move(cause);
  effects.changed = true;
}

std::optional<std::string> Membership::CommonBackend() const {
  for (const std::string& backend : members_[0]->backends) {
    const bool offered_by_all =
        std::all_of(members_.begin(), members_.end(), [&](const auto& member) {
          return std::count(member->backends.begin(), member->backends.end(),
                            backend) > 0;
        });
    if (offered_by_all) return backend;
  }
  return std::nullopt;
}

void Membership::FormWhenPossible(absl::Time now, Effects& effects) {
  if (state_ != State::kWaiting || now < not_before_) return;
  for (const auto& member : members_) {
    if (!member || member->leaving) return;
  }
  const auto backend = CommonBackend();
  if (!backend) {
    last_failure_ =
        WithReason(absl::FailedPreconditionError(absl::StrCat(
                       "the workers offer no backend in common; rank 0 offers ",
                       absl::StrJoin(members_[0]->backends, ", "))),
                   reason::kCommunicatorFailed);
    return;
  }
  ++generation_;
  state_ = State::kForming;
  store_prefix_ = options_.draw_store_prefix();
  backend_ = *backend;
  form_deadline_ = now + options_.form_timeout + kFormationSlack;
  for (auto& member : members_) {
    member->formed = false;
    v1::CoordinatorMessage message;
    auto* form = message.mutable_form_communicator();
    form->set_generation(generation_.value());
    form->set_rank(member->rank.value());
    form->set_num_ranks(options_.num_ranks);
    form->set_backend(*backend);
    form->set_store_prefix(store_prefix_);
    form->set_timeout_s(absl::ToDoubleSeconds(options_.form_timeout));
    effects.messages.emplace_back(member->attachment, std::move(message));
  }
  effects.changed = true;
}

void Membership::Heard(AttachmentId attachment, absl::Time now) {
  if (Member* member = FindMutable(attachment)) member->last_heard = now;
}

void Membership::OnPong(AttachmentId attachment, const v1::Pong& pong,
                        absl::Time now) {
  Member* member = FindMutable(attachment);
  if (member == nullptr) return;
  member->resident_bytes = pong.resident_bytes();
  if (pong.sequence() == ping_sequence_) {
    member->round_trip = now - pinged_at_;
  }
  member->computing.reset();
  if (pong.has_computing()) member->computing = pong.computing();
}

void Membership::OnLeaving(AttachmentId attachment, const v1::Leaving& leaving,
                           absl::Time now, Effects& effects) {
  Member* member = FindMutable(attachment);
  if (member == nullptr) return;
  if (leaving.at_once()) {
    const absl::Status why = absl::UnavailableError(leaving.reason());
    effects.closes.emplace_back(attachment, why);
    Remove(member->rank, why, now, effects);
    return;
  }
  member->leaving = true;
  effects.changed = true;
}

void Membership::DismissLeaving(Effects& effects) {
  for (auto& member : members_) {
    if (!member || !member->leaving) continue;
    Dismiss(*member, "no call needs this worker", effects);
  }
}

void Membership::DismissAll(const std::string& reason, Effects& effects) {
  for (auto& member : members_) {
    if (member) Dismiss(*member, reason, effects);
  }
}

void Membership::Dismiss(Member& member, const std::string& reason,
                         Effects& effects) {
  member.leaving = true;
  if (std::exchange(member.dismissed, true)) return;
  v1::CoordinatorMessage message;
  message.mutable_shutdown()->set_reason(reason);
  effects.messages.emplace_back(member.attachment, std::move(message));
}

std::string Membership::Leaving() const {
  std::vector<std::string> leaving;
  for (const auto& member : members_) {
    if (member && member->leaving) {
      leaving.push_back(DescribeWorker(member->name, member->rank));
    }
  }
  return absl::StrJoin(leaving, ", ");
}

void Membership::OnFormed(AttachmentId attachment,
                          const v1::CommunicatorFormed& formed, absl::Time now,
                          Effects& effects) {
  Member* member = FindMutable(attachment);
  if (member == nullptr || state_ != State::kForming ||
      formed.generation() != generation_.value()) {
    return;
  }
  const absl::Status error = FromRpcStatus(formed.error());
  if (!error.ok()) {
    OnFailed(attachment, generation_, error, now, effects);
    return;
  }
  member->formed = true;
  for (const auto& other : members_) {
    if (!other->formed) return;
  }
  state_ = State::kReady;
  ready_since_ = now;
  form_deadline_ = absl::InfiniteFuture();
  effects.changed = true;
}

void Membership::OnFailed(AttachmentId attachment, Generation generation,
                          const absl::Status& error, absl::Time now,
                          Effects& effects) {
  const Member* member = Find(attachment);
  if (member == nullptr || generation != generation_ ||
      state_ == State::kWaiting || suspected_) {
    return;
  }
  suspected_ = WithReason(
      absl::UnavailableError(absl::StrCat(
          "the communicator failed, first seen by ",
          DescribeWorker(member->name, member->rank), ": ", error.message())),
      reason::kCommunicatorFailed,
      {{"worker", member->name}, {"rank", absl::StrCat(member->rank.value())}});
  suspected_since_ = now;
}

void Membership::SendPings(absl::Time now, Effects& effects) {
  if (now < next_ping_) return;
  next_ping_ = now + options_.ping_interval;
  ++ping_sequence_;
  pinged_at_ = now;
  for (const auto& member : members_) {
    if (!member) continue;
    v1::CoordinatorMessage message;
    message.mutable_ping()->set_sequence(ping_sequence_);
    effects.messages.emplace_back(member->attachment, std::move(message));
  }
}

void Membership::DropSilent(absl::Time now, Effects& effects) {
  for (int r = 0; r < options_.num_ranks; ++r) {
    if (!members_[r]) continue;
    const absl::Duration silent = now - members_[r]->last_heard;
    if (silent <= options_.worker_timeout) continue;
    const absl::Status lost = absl::UnavailableError(absl::StrCat(
        "no answer for ", absl::FormatDuration(silent), "; the limit is ",
        absl::FormatDuration(options_.worker_timeout)));
    effects.closes.emplace_back(members_[r]->attachment, lost);
    Remove(Rank(r), lost, now, effects);
  }
}

std::string Membership::MissingFormed() const {
  std::vector<std::string> missing;
  for (const auto& member : members_) {
    if (!member->formed) {
      missing.push_back(DescribeWorker(member->name, member->rank));
    }
  }
  return absl::StrJoin(missing, ", ");
}

void Membership::Tick(absl::Time now, Effects& effects) {
  DropSilent(now, effects);
  SendPings(now, effects);
  if (suspected_ && now - suspected_since_ >= options_.cause_grace) {
    EndGeneration(*std::move(suspected_), now, /*back_off=*/true, effects);
  }
  if (state_ == State::kForming && now > form_deadline_) {
    EndGeneration(WithReason(absl::UnavailableError(absl::StrCat(
                                 "generation ", generation_.value(),
                                 " was not formed in time; no answer from ",
                                 MissingFormed())),
                             reason::kCommunicatorFailed),
                  now, /*back_off=*/true, effects);
  }
  FormWhenPossible(now, effects);
}

}  // namespace pipestage
