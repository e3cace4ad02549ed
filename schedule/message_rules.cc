#include "schedule/message_rules.h"

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "schedule/plan_error.h"

namespace pipestage {
namespace {

bool IsSend(ActionKind kind) {
  return kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward;
}
bool IsRecv(ActionKind kind) {
  return kind == ActionKind::kRecvForward || kind == ActionKind::kRecvBackward;
}
bool IsMessage(ActionKind kind) { return IsSend(kind) || IsRecv(kind); }

// The stage at the other end.
int OtherStage(const Action& action) {
  const bool is_up = action.kind == ActionKind::kSendForward ||
                     action.kind == ActionKind::kRecvBackward;
  return action.stage.value() + (is_up ? 1 : -1);
}

bool AreEndsOfOne(const Action& send, const Action& recv) {
  const ActionKind wanted = send.kind == ActionKind::kSendForward
                                ? ActionKind::kRecvForward
                                : ActionKind::kRecvBackward;
  return recv.kind == wanted && recv.microbatch == send.microbatch &&
         recv.stage.value() == OtherStage(send);
}

class Rendezvous {
 public:
  explicit Rendezvous(const Plan& plan)
      : plan_(plan), next_(plan.num_ranks(), 0) {}

  absl::Status Run() {
    for (int rank = 0; rank < plan_.num_ranks(); ++rank) ready_.push_back(rank);
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      PIPESTAGE_RETURN_IF_ERROR(Advance(rank));
    }
    for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
      if (!HasEnded(rank)) return DescribeDeadlock();
    }
    return absl::OkStatus();
  }

 private:
  bool HasEnded(int rank) const {
    return next_[rank] == plan_.ranks[rank].size();
  }
  const Action& Current(int rank) const {
    return plan_.ranks[rank][next_[rank]];
  }
  int PeerOf(const Action& action) const {
    return plan_.stage_ranks[OtherStage(action)].value();
  }

  // Takes `rank` past what needs nobody and past the messages whose other end
  // waits; those ends become ready.
  absl::Status Advance(int rank) {
    while (!HasEnded(rank)) {
      const Action& action = Current(rank);
      if (IsMessage(action.kind)) {
        const int peer = PeerOf(action);
        if (!IsWaitingFor(peer, rank, action)) return absl::OkStatus();
        PIPESTAGE_RETURN_IF_ERROR(CheckEnds(rank, peer));
        ++next_[peer];
        ready_.push_back(peer);
      }
      ++next_[rank];
    }
    return absl::OkStatus();
  }

  // Whether `peer` stands at the other direction of a message with `rank`. If
  // it stands elsewhere it will look at `rank` when it comes to it.
  bool IsWaitingFor(int peer, int rank, const Action& action) const {
    if (HasEnded(peer)) return false;
    const Action& other = Current(peer);
    return IsMessage(other.kind) && IsSend(other.kind) != IsSend(action.kind) &&
           PeerOf(other) == rank;
  }

  absl::Status CheckEnds(int rank, int peer) const {
    const bool sends = IsSend(Current(rank).kind);
    const int sender = sends ? rank : peer;
    const int receiver = sends ? peer : rank;
    if (AreEndsOfOne(Current(sender), Current(receiver))) {
      return absl::OkStatus();
    }
    return WrongAction(plan_, receiver, next_[receiver], "at this point rank ",
                       sender, " sends it ", ToString(Current(sender)));
  }

  absl::Status DescribeDeadlock() const {
    std::string waits;
    for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
      absl::StrAppend(&waits, rank == 0 ? "" : "; ", "rank ", rank);
      if (HasEnded(rank)) {
        absl::StrAppend(&waits, " has ended");
        continue;
      }
      absl::StrAppend(&waits, " waits at action ", next_[rank], " (",
                      ToString(Current(rank)), ") for rank ",
                      PeerOf(Current(rank)));
    }
    return WrongPlan("deadlock: ", waits);
  }

  const Plan& plan_;
  std::vector<size_t> next_;  // of each rank: its first action not yet taken
  std::vector<int> ready_;
};

}  // namespace

absl::Status CheckMessages(const Plan& plan) { return Rendezvous(plan).Run(); }

}  // namespace pipestage
