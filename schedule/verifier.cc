#include "schedule/verifier.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/status_macros.h"

namespace pipestage {
namespace {

template <typename... Parts>
absl::Status Wrong(const Parts&... parts) {
  return WithReason(
      absl::InternalError(absl::StrCat("the plan is wrong: ", parts...)),
      reason::kPlanInvalid);
}

// Marks of (stage, microbatch) pairs.
class CellSet {
 public:
  CellSet(int num_stages, int num_microbatches)
      : num_microbatches_(num_microbatches),
        marks_(static_cast<size_t>(num_stages) * num_microbatches, false) {}

  bool Has(int stage, int microbatch) const {
    return marks_[Index(stage, microbatch)];
  }
  // False if it was there already.
  bool Insert(int stage, int microbatch) {
    if (Has(stage, microbatch)) return false;
    marks_[Index(stage, microbatch)] = true;
    return true;
  }

 private:
  size_t Index(int stage, int microbatch) const {
    return static_cast<size_t>(stage) * num_microbatches_ + microbatch;
  }

  const int num_microbatches_;
  std::vector<bool> marks_;
};

class EvalPlanVerifier {
 public:
  explicit EvalPlanVerifier(const Plan& plan)
      : plan_(plan),
        computed_(plan.num_stages(), plan.num_microbatches),
        sent_(plan.num_stages(), plan.num_microbatches),
        received_(plan.num_stages(), plan.num_microbatches),
        next_(plan.num_ranks(), 0) {}

  absl::Status Verify() {
    for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
      for (size_t i = 0; i < plan_.ranks[rank].size(); ++i) {
        PIPESTAGE_RETURN_IF_ERROR(CheckAction(rank, i));
      }
    }
    PIPESTAGE_RETURN_IF_ERROR(CheckNothingIsMissing());
    PIPESTAGE_RETURN_IF_ERROR(CheckOrderOfPairs());
    return CheckItFinishes();
  }

 private:
  int num_stages() const { return plan_.num_stages(); }
  int Owner(int stage) const { return plan_.stage_ranks[stage].value(); }
  // Whether stage's output leaves its rank.
  bool Crosses(int stage) const {
    return stage >= 0 && stage + 1 < num_stages() &&
           Owner(stage) != Owner(stage + 1);
  }

  template <typename... Parts>
  absl::Status WrongAction(int rank, size_t i, const Parts&... parts) const {
    return Wrong("rank ", rank, ", action ", i, " (",
                 ToString(plan_.ranks[rank][i]), "): ", parts...);
  }

  absl::Status CheckAction(int rank, size_t i);
  absl::Status CheckForward(int rank, size_t i);
  absl::Status CheckSend(int rank, size_t i);
  absl::Status CheckRecv(int rank, size_t i);
  absl::Status CheckNothingIsMissing() const;
  absl::Status CheckOrderOfPairs() const;
  absl::Status CheckItFinishes();

  // The rank on the other side of the communication that `rank` has reached, or
  // -1 if it has ended.
  int PeerOf(int rank) const;
  // Takes `rank` past its computations and those communications whose other
  // side waits; returns the ranks that were waiting.
  std::vector<int> Advance(int rank);
  absl::Status DescribeDeadlock() const;

  const Plan& plan_;
  CellSet computed_;
  CellSet sent_;              // by stage that sends
  CellSet received_;          // by stage that receives
  std::vector<size_t> next_;  // of each rank, in CheckItFinishes
};

absl::Status EvalPlanVerifier::CheckAction(int rank, size_t i) {
  const Action& action = plan_.ranks[rank][i];
  const int stage = action.stage.value();
  const int microbatch = action.microbatch.value();
  if (action.kind != ActionKind::kForward &&
      action.kind != ActionKind::kSendForward &&
      action.kind != ActionKind::kRecvForward) {
    return WrongAction(rank, i, "an Eval goes forward only");
  }
  if (stage < 0 || stage >= num_stages()) {
    return WrongAction(rank, i, "there are ", num_stages(), " stages");
  }
  if (microbatch < 0 || microbatch >= plan_.num_microbatches) {
    return WrongAction(rank, i, "there are ", plan_.num_microbatches,
                       " microbatches");
  }
  if (Owner(stage) != rank) {
    return WrongAction(rank, i, "the stage is on rank ", Owner(stage));
  }
  if (action.kind == ActionKind::kForward) return CheckForward(rank, i);
  if (action.kind == ActionKind::kSendForward) return CheckSend(rank, i);
  return CheckRecv(rank, i);
}

// Rows are walked in order, so what is marked comes before.
absl::Status EvalPlanVerifier::CheckForward(int rank, size_t i) {
  const int stage = plan_.ranks[rank][i].stage.value();
  const int microbatch = plan_.ranks[rank][i].microbatch.value();
  if (!computed_.Insert(stage, microbatch)) {
    return WrongAction(rank, i, "it was computed before");
  }
  if (stage == 0) return absl::OkStatus();
  if (Crosses(stage - 1)) {
    if (received_.Has(stage, microbatch)) return absl::OkStatus();
    return WrongAction(rank, i, "its input was not received before");
  }
  if (computed_.Has(stage - 1, microbatch)) return absl::OkStatus();
  return WrongAction(rank, i, "its input was not computed before");
}

absl::Status EvalPlanVerifier::CheckSend(int rank, size_t i) {
  const int stage = plan_.ranks[rank][i].stage.value();
  const int microbatch = plan_.ranks[rank][i].microbatch.value();
  if (!Crosses(stage)) {
    return WrongAction(rank, i, "no other rank needs what it sends");
  }
  if (!computed_.Has(stage, microbatch)) {
    return WrongAction(rank, i, "what it sends was not computed before");
  }
  if (!sent_.Insert(stage, microbatch)) {
    return WrongAction(rank, i, "it was sent before");
  }
  return absl::OkStatus();
}

absl::Status EvalPlanVerifier::CheckRecv(int rank, size_t i) {
  const int stage = plan_.ranks[rank][i].stage.value();
  const int microbatch = plan_.ranks[rank][i].microbatch.value();
  if (!Crosses(stage - 1)) {
    return WrongAction(rank, i, "no other rank has what it receives");
  }
  if (!received_.Insert(stage, microbatch)) {
    return WrongAction(rank, i, "it was received before");
  }
  return absl::OkStatus();
}

absl::Status EvalPlanVerifier::CheckNothingIsMissing() const {
  for (int stage = 0; stage < num_stages(); ++stage) {
    for (int m = 0; m < plan_.num_microbatches; ++m) {
      if (!computed_.Has(stage, m)) {
        return Wrong("rank ", Owner(stage), " lacks ", stage, "F", m);
      }
      if (!Crosses(stage)) continue;
      if (!sent_.Has(stage, m)) {
        return Wrong("rank ", Owner(stage), " lacks ", stage, "SEND_F", m);
      }
      if (!received_.Has(stage + 1, m)) {
        return Wrong("rank ", Owner(stage + 1), " lacks ", stage + 1, "RECV_F",
                     m);
      }
    }
  }
  return absl::OkStatus();
}

// Called when everything that is sent is received somewhere on the right pair,
// so both sides have the same length.
absl::Status EvalPlanVerifier::CheckOrderOfPairs() const {
  std::map<std::pair<int, int>, std::vector<Action>> sends;
  for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
    for (const Action& action : plan_.ranks[rank]) {
      if (action.kind != ActionKind::kSendForward) continue;
      sends[{rank, Owner(action.stage.value() + 1)}].push_back(action);
    }
  }
  std::map<std::pair<int, int>, size_t> taken;
  for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
    for (size_t i = 0; i < plan_.ranks[rank].size(); ++i) {
      const Action& action = plan_.ranks[rank][i];
      if (action.kind != ActionKind::kRecvForward) continue;
      const std::pair<int, int> pair(Owner(action.stage.value() - 1), rank);
      const Action& sent = sends[pair][taken[pair]++];
      if (sent.stage + 1 != action.stage ||
          sent.microbatch != action.microbatch) {
        return WrongAction(rank, i, "at this point rank ", pair.first,
                           " sends it ", ToString(sent));
      }
    }
  }
  return absl::OkStatus();
}

int EvalPlanVerifier::PeerOf(int rank) const {
  if (next_[rank] == plan_.ranks[rank].size()) return -1;
  const Action& action = plan_.ranks[rank][next_[rank]];
  return action.kind == ActionKind::kSendForward
             ? Owner(action.stage.value() + 1)
             : Owner(action.stage.value() - 1);
}

std::vector<int> EvalPlanVerifier::Advance(int rank) {
  std::vector<int> woken;
  const std::vector<Action>& row = plan_.ranks[rank];
  while (next_[rank] < row.size()) {
    const Action& action = row[next_[rank]];
    if (action.kind != ActionKind::kForward) {
      const int peer = PeerOf(rank);
      // The peer stands at a communication or at a forward it has not been
      // taken past yet; either way it is looked at again.
      if (next_[peer] == plan_.ranks[peer].size()) break;
      const Action& other = plan_.ranks[peer][next_[peer]];
      if (other.kind == ActionKind::kForward || other.kind == action.kind ||
          PeerOf(peer) != rank) {
        break;
      }
      ++next_[peer];
      woken.push_back(peer);
    }
    ++next_[rank];
  }
  return woken;
}

absl::Status EvalPlanVerifier::CheckItFinishes() {
  std::vector<int> ready;
  for (int rank = 0; rank < plan_.num_ranks(); ++rank) ready.push_back(rank);
  while (!ready.empty()) {
    const int rank = ready.back();
    ready.pop_back();
    for (int woken : Advance(rank)) ready.push_back(woken);
  }
  for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
    if (next_[rank] < plan_.ranks[rank].size()) return DescribeDeadlock();
  }
  return absl::OkStatus();
}

absl::Status EvalPlanVerifier::DescribeDeadlock() const {
  std::string waits;
  for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
    absl::StrAppend(&waits, rank == 0 ? "" : "; ", "rank ", rank);
    if (next_[rank] == plan_.ranks[rank].size()) {
      absl::StrAppend(&waits, " has ended");
      continue;
    }
    absl::StrAppend(&waits, " waits at action ", next_[rank], " (",
                    ToString(plan_.ranks[rank][next_[rank]]), ") for rank ",
                    PeerOf(rank));
  }
  return Wrong("deadlock: ", waits);
}

absl::Status CheckPlacement(const Plan& plan) {
  if (plan.num_microbatches < 1) {
    return Wrong("it has ", plan.num_microbatches, " microbatches");
  }
  std::vector<bool> owns(plan.num_ranks(), false);
  for (int stage = 0; stage < plan.num_stages(); ++stage) {
    const int owner = plan.stage_ranks[stage].value();
    if (owner < 0 || owner >= plan.num_ranks()) {
      return Wrong("stage ", stage, " is on rank ", owner, ", but there are ",
                   plan.num_ranks(), " rows");
    }
    owns[owner] = true;
  }
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    if (!owns[rank]) {
      return Wrong("there are ", plan.num_ranks(), " rows, but rank ", rank,
                   " owns no stage");
    }
  }
  if (plan.ranks.empty()) return Wrong("it has no rows");
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyPlan(const Plan& plan) {
  if (plan.mode != PlanMode::kEval) {
    return absl::UnimplementedError("only Eval plans can be verified");
  }
  PIPESTAGE_RETURN_IF_ERROR(CheckPlacement(plan));
  return EvalPlanVerifier(plan).Verify();
}

}  // namespace pipestage
