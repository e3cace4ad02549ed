#include "schedule/action.h"

#include <string>
#include <vector>

#include "base/status_matchers.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;

constexpr ActionKind kSingleKinds[] = {
    ActionKind::kForward,       ActionKind::kBackward,
    ActionKind::kBackwardInput, ActionKind::kBackwardWeight,
    ActionKind::kSendForward,   ActionKind::kRecvForward,
    ActionKind::kSendBackward,  ActionKind::kRecvBackward,
    ActionKind::kUnshard,       ActionKind::kReshard,
    ActionKind::kReduceGrad,
};

TEST(ActionTest, EveryKindComesBackFromItsText) {
  for (ActionKind kind : kSingleKinds) {
    const Action action{StageIndex(12), kind,
                        MicrobatchIndex(HasMicrobatch(kind) ? 307 : -1)};

    EXPECT_THAT(ParseAction(ToString(action)), IsOkAndHolds(action));
  }
}

TEST(ActionTest, TextIsPyTorchs) {
  EXPECT_EQ(ToString({StageIndex(2), ActionKind::kForward, MicrobatchIndex(0)}),
            "2F0");
  EXPECT_EQ(
      ToString({StageIndex(1), ActionKind::kSendForward, MicrobatchIndex(3)}),
      "1SEND_F3");
  EXPECT_EQ(ToString({StageIndex(0), ActionKind::kUnshard}), "0UNSHARD");
}

TEST(ActionTest, AnOverlapHoldsAForwardAndABackward) {
  const Action overlap{StageIndex(0), ActionKind::kOverlapForwardBackward,
                       MicrobatchIndex(7), StageIndex(7), MicrobatchIndex(3)};

  EXPECT_EQ(ToString(overlap), "(0F7;7B3)OVERLAP_F_B");
  EXPECT_THAT(ParseAction("(0F7;7B3)OVERLAP_F_B"), IsOkAndHolds(overlap));
  std::vector<std::string> parts;
  ForEachPart(overlap,
              [&](const Action& part) { parts.push_back(ToString(part)); });
  EXPECT_EQ(parts, (std::vector<std::string>{"0F7", "7B3"}));
}

struct Refusal {
  std::string text;
  std::string message;
};

TEST(ActionTest, TextThatIsNoActionIsRefusedWithItsColumn) {
  const std::vector<Refusal> refusals = {
      {"", "expected a stage number at column 1"},
      {"F0", "expected a stage number at column 1"},
      {" 1F0", "expected a stage number at column 1"},
      {"-1F0", "expected a stage number at column 1"},
      {"01F0", "expected a stage number without leading zeros at column 1"},
      {"1", "expected one of F, B,"},
      {"1f0", "REDUCE_GRAD at column 2"},
      {"1X0", "REDUCE_GRAD at column 2"},
      {"12FF0", "REDUCE_GRAD at column 3"},
      {"1F", "expected a microbatch number at column 3"},
      {"1B-1", "expected a microbatch number at column 3"},
      {"1F00", "expected a microbatch number without leading zeros"},
      {"1F0junk", "expected the end at column 4"},
      {"1F0 ", "expected the end at column 4"},
      {"1UNSHARD2", "UNSHARD has no microbatch at column 9"},
      {"1F2147483648", "expected a microbatch number below 2147483648"},
      {"99999999999999999999F1", "expected a stage number below"},
      {"1OVERLAP_F_B0", "REDUCE_GRAD at column 2"},
      {"(0F7;7B3)", "expected \")OVERLAP_F_B\" at column 9"},
      {"(0F7;7B3)OVERLAP_F_Bx", "expected the end at column 21"},
      {"(0F7,7B3)OVERLAP_F_B", "expected \";\" at column 5"},
      {"(7B3;0F7)OVERLAP_F_B", "expected a forward (F) at column 2"},
      {"(0F7;7I3)OVERLAP_F_B", "expected a full backward (B) at column 6"},
      {"()OVERLAP_F_B", "expected a stage number at column 2"},
      {"((0F7;7B3)OVERLAP_F_B;7B3)OVERLAP_F_B", "a stage number at column 2"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_THAT(ParseAction(refusal.text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(refusal.message)))
        << refusal.text;
  }
}

TEST(ActionCsvTest, RowsComeBackFromTheirText) {
  const std::string csv = "0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F0,1F0\n\n";

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(ActionRows rows, ParseCsv(csv));

  EXPECT_EQ(rows.size(), 3u);
  EXPECT_TRUE(rows[2].empty());
  EXPECT_EQ(ToCsv(rows), csv);
}

TEST(ActionCsvTest, BubblesCarriageReturnsAndAMissingLastNewlineAreRead) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(ActionRows rows,
                                 ParseCsv(",0F0,,0F1\r\n,, 1F0 ,1F1"));

  EXPECT_EQ(ToCsv(rows), "0F0,0F1\n1F0,1F1\n");
}

TEST(ActionCsvTest, NothingIsNoRows) {
  EXPECT_THAT(ParseCsv(""), IsOkAndHolds(ActionRows{}));
}

TEST(ActionCsvTest, AWrongCellIsNamedByRowAndColumn) {
  EXPECT_THAT(ParseCsv("0F0,0F1\n1F0, 1G1\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("row 2 (rank 1), column 7: \"1G1\"")));
}

}  // namespace
}  // namespace pipestage
