#include "schedule/action.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace pipestage {
namespace {

struct KindName {
  ActionKind kind;
  absl::string_view name;
};

// In the order of their values, which start at 1.
constexpr KindName kKinds[] = {
    {ActionKind::kForward, "F"},
    {ActionKind::kBackward, "B"},
    {ActionKind::kBackwardInput, "I"},
    {ActionKind::kBackwardWeight, "W"},
    {ActionKind::kSendForward, "SEND_F"},
    {ActionKind::kRecvForward, "RECV_F"},
    {ActionKind::kSendBackward, "SEND_B"},
    {ActionKind::kRecvBackward, "RECV_B"},
    {ActionKind::kUnshard, "UNSHARD"},
    {ActionKind::kReshard, "RESHARD"},
    {ActionKind::kReduceGrad, "REDUCE_GRAD"},
    {ActionKind::kOverlapForwardBackward, "OVERLAP_F_B"},
};

// Where a text stops being an action, and what belongs there.
struct ParseFailure {
  size_t position = 0;  // from 0
  std::string expected;
};

// Reads an action's text from left to right; the first failure stays.
class ActionReader {
 public:
  explicit ActionReader(absl::string_view text) : text_(text) {}

  bool Read(Action& action) {
    if (!text_.empty() && text_[0] == '(') return ReadOverlap(action);
    return ReadSingle(action) && ReadEnd(action.kind);
  }

  const ParseFailure& failure() const { return failure_; }

 private:
  bool ReadOverlap(Action& action) {
    Action forward, backward;
    if (!ReadText("(") || !ReadPart(ActionKind::kForward, forward) ||
        !ReadText(";") || !ReadPart(ActionKind::kBackward, backward) ||
        !ReadText(")OVERLAP_F_B")) {
      return false;
    }
    action = {forward.stage, ActionKind::kOverlapForwardBackward,
              forward.microbatch, backward.stage, backward.microbatch};
    return position_ == text_.size() || Fail(position_, "the end");
  }

  bool ReadPart(ActionKind kind, Action& action) {
    const size_t start = position_;
    if (!ReadSingle(action)) return false;
    if (action.kind == kind) return true;
    return Fail(start, kind == ActionKind::kForward ? "a forward (F)"
                                                    : "a full backward (B)");
  }

  bool ReadText(absl::string_view expected) {
    if (absl::StartsWith(text_.substr(position_), expected)) {
      position_ += expected.size();
      return true;
    }
    return Fail(position_, absl::StrCat("\"", expected, "\""));
  }

  bool ReadSingle(Action& action) {
    int32_t stage = 0;
    if (!ReadNumber("a stage number", stage)) return false;
    action.stage = StageIndex(stage);
    if (!ReadKind(action.kind)) return false;
    action.microbatch = MicrobatchIndex(-1);
    if (HasMicrobatch(action.kind)) {
      int32_t microbatch = 0;
      if (!ReadNumber("a microbatch number", microbatch)) return false;
      action.microbatch = MicrobatchIndex(microbatch);
    }
    return true;
  }

  bool Fail(size_t position, std::string expected) {
    failure_ = {position, std::move(expected)};
    return false;
  }

  bool ReadNumber(absl::string_view what, int32_t& value) {
    const size_t start = position_;
    int64_t number = 0;
    while (position_ < text_.size() && absl::ascii_isdigit(text_[position_])) {
      number = number * 10 + (text_[position_++] - '0');
      if (number > std::numeric_limits<int32_t>::max()) {
        return Fail(start, absl::StrCat(what, " below 2147483648"));
      }
    }
    if (position_ == start) return Fail(start, std::string(what));
    if (text_[start] == '0' && position_ > start + 1) {
      return Fail(start, absl::StrCat(what, " without leading zeros"));
    }
    value = static_cast<int32_t>(number);
    return true;
  }

  bool ReadKind(ActionKind& kind) {
    const size_t start = position_;
    while (position_ < text_.size() &&
           (absl::ascii_isupper(text_[position_]) || text_[position_] == '_')) {
      ++position_;
    }
    const absl::string_view name = text_.substr(start, position_ - start);
    for (const KindName& entry : kKinds) {
      // A container of two actions: no single one is spelt like this.
      if (entry.kind == ActionKind::kOverlapForwardBackward) continue;
      if (entry.name == name) {
        kind = entry.kind;
        return true;
      }
    }
    return Fail(start,
                "one of F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, "
                "RESHARD, REDUCE_GRAD");
  }

  bool ReadEnd(ActionKind kind) {
    if (position_ == text_.size()) return true;
    return Fail(position_,
                HasMicrobatch(kind)
                    ? "the end"
                    : absl::StrCat("the end, for ", ActionKindName(kind),
                                   " has no microbatch"));
  }

  const absl::string_view text_;
  size_t position_ = 0;
  ParseFailure failure_;
};

// The cells of one line of CSV. `row` counts from 0.
absl::StatusOr<std::vector<Action>> ParseRow(absl::string_view line,
                                             size_t row) {
  std::vector<Action> actions;
  size_t cell_start = 0;
  for (absl::string_view cell : absl::StrSplit(line, ',')) {
    const absl::string_view text = absl::StripAsciiWhitespace(cell);
    if (!text.empty()) {
      ActionReader reader(text);
      Action action;
      if (!reader.Read(action)) {
        const size_t column = cell_start + (text.data() - cell.data()) +
                              reader.failure().position + 1;
        return absl::InvalidArgumentError(absl::StrCat(
            "row ", row + 1, " (rank ", row, "), column ", column, ": \"", text,
            "\" is not an action: expected ", reader.failure().expected));
      }
      actions.push_back(action);
    }
    cell_start += cell.size() + 1;
  }
  return actions;
}

}  // namespace

absl::string_view ActionKindName(ActionKind kind) {
  const size_t index = static_cast<size_t>(kind) - 1;
  return index < std::size(kKinds) ? kKinds[index].name : "UNKNOWN";
}

bool HasMicrobatch(ActionKind kind) {
  return kind != ActionKind::kUnshard && kind != ActionKind::kReshard &&
         kind != ActionKind::kReduceGrad;
}

bool IsCompute(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kBackward ||
         kind == ActionKind::kBackwardInput ||
         kind == ActionKind::kBackwardWeight ||
         kind == ActionKind::kOverlapForwardBackward;
}

std::string ToString(const Action& action) {
  if (action.kind == ActionKind::kOverlapForwardBackward) {
    return absl::StrCat("(", action.stage.value(), "F",
                        action.microbatch.value(), ";",
                        action.backward_stage.value(), "B",
                        action.backward_microbatch.value(), ")OVERLAP_F_B");
  }
  std::string text =
      absl::StrCat(action.stage.value(), ActionKindName(action.kind));
  if (HasMicrobatch(action.kind)) {
    absl::StrAppend(&text, action.microbatch.value());
  }
  return text;
}

absl::StatusOr<Action> ParseAction(absl::string_view text) {
  ActionReader reader(text);
  Action action;
  if (reader.Read(action)) return action;
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" is not an action: expected ", reader.failure().expected,
      " at column ", reader.failure().position + 1));
}

std::string ToCsv(const ActionRows& rows) {
  std::string csv;
  for (const std::vector<Action>& row : rows) {
    absl::StrAppend(&csv,
                    absl::StrJoin(row, ",",
                                  [](std::string* out, const Action& action) {
                                    absl::StrAppend(out, ToString(action));
                                  }),
                    "\n");
  }
  return csv;
}

absl::StatusOr<ActionRows> ParseCsv(absl::string_view csv) {
  ActionRows rows;
  while (!csv.empty()) {
    const size_t end = std::min(csv.find('\n'), csv.size());
    absl::StatusOr<std::vector<Action>> row =
        ParseRow(csv.substr(0, end), rows.size());
    if (!row.ok()) return row.status();
    rows.push_back(*std::move(row));
    csv.remove_prefix(std::min(end + 1, csv.size()));
  }
  return rows;
}

}  // namespace pipestage
