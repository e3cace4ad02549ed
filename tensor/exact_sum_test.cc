#include "tensor/exact_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kMax = std::numeric_limits<double>::max();
constexpr double kTiny = std::numeric_limits<double>::denorm_min();

uint64_t Bits(double x) { return std::bit_cast<uint64_t>(x); }

ExactSum SumOf(absl::Span<const double> terms) {
  ExactSum sum;
  for (const double term : terms) sum.Add(term);
  return sum;
}

// The oracle: a sum as one long integer, in units of the smallest double.
class LongInteger {
 public:
  void Add(double term) {
    int exponent = 0;
    const auto mantissa =
        static_cast<int64_t>(std::ldexp(std::frexp(term, &exponent), 53));
    exponent += 1074 - 53;
    // Below the unit there is nothing: the bits shifted out are zero.
    const __int128 wide = exponent < 0 ? mantissa >> -exponent : mantissa;
    const int position = std::max(exponent, 0);
    __int128 shifted = wide << (position % 32);
    for (size_t i = position / 32; i < limbs_.size() && shifted != 0; ++i) {
      shifted += limbs_[i];
      limbs_[i] = static_cast<int64_t>(shifted & 0xffffffff);
      shifted >>= 32;  // arithmetic: a borrow goes on as -1
    }
  }

  double Round() const {
    const bool negative = limbs_.back() & 0x80000000;
    std::array<int64_t, 70> magnitude = limbs_;
    if (negative) Negate(magnitude);
    int top = 70 * 32 - 1;
    while (top >= 0 && !Bit(magnitude, top)) --top;
    const int low = std::max(top - 52, 0);
    uint64_t mantissa = 0;
    for (int i = top; i >= low; --i)
      mantissa = mantissa * 2 + Bit(magnitude, i);
    bool sticky = false;
    for (int i = low - 2; i >= 0; --i) sticky = sticky || Bit(magnitude, i);
    const bool half = low > 0 && Bit(magnitude, low - 1);
    if (half && (sticky || mantissa % 2 == 1)) ++mantissa;
    const double value = std::ldexp(static_cast<double>(mantissa), low - 1074);
    return negative ? -value : value;
  }

 private:
  static bool Bit(const std::array<int64_t, 70>& limbs, int i) {
    return limbs[i / 32] >> (i % 32) & 1;
  }
  static void Negate(std::array<int64_t, 70>& limbs) {
    int64_t carry = 1;
    for (int64_t& limb : limbs) {
      limb = (~limb & 0xffffffff) + carry;
      carry = limb >> 32;
      limb &= 0xffffffff;
    }
  }

  std::array<int64_t, 70> limbs_ = {};  // 32 bits each, two's complement
};

double OracleSum(absl::Span<const double> terms) {
  LongInteger sum;
  for (const double term : terms) sum.Add(term);
  return sum.Round();
}

// The cases of CPython's test_math.testFsum, with its answers.
TEST(ExactSumTest, HardCasesOfMathFsumRoundAsThere) {
  const std::vector<std::pair<std::vector<double>, double>> cases = {
      {{}, 0.0},
      {{0.0}, 0.0},
      {{1e100, 1.0, -1e100, 1e-100, 1e50, -1.0, -1e50}, 1e-100},
      {{1e308, 1e308, -1e308}, 1e308},
      {{-1e308, 1e308, 1e308}, 1e308},
      {{0x1p53, -0.5, -0x1p-54}, 0x1p53 - 1.0},
      {{0x1p53, 1.0, 0x1p-100}, 0x1p53 + 2.0},
      {{0x1p53 + 10.0, 1.0, 0x1p-100}, 0x1p53 + 12.0},
      {{0x1p53 - 4.0, 0.5, 0x1p-54}, 0x1p53 - 3.0},
      {{1e16, 1., 1e-16}, 10000000000000002.0},
      {{1e16 - 2., 1. - 0x1p-53, -(1e16 - 2.), -(1. - 0x1p-53)}, 0.0},
      {{1.0, 0x1p-53, 0x1p-1074}, 1.0000000000000002},
      {{1.0, 0x1p-53, -0x1p-1074}, 1.0},
      {{1.0, 0x1p-53}, 1.0},
      {std::vector<double>(10, 0.1), 1.0},
  };
  for (const auto& [terms, expected] : cases) {
    EXPECT_EQ(Bits(SumOf(terms).Round()), Bits(expected)) << expected;
  }
}

TEST(ExactSumTest, ThousandHarmonicTermsRoundAsInPython) {
  ExactSum sum;
  for (int n = 1; n <= 1000; ++n) sum.Add(1.0 / n);

  // math.fsum([1/n for n in range(1, 1001)])
  EXPECT_EQ(sum.Round(), 0x1.df11f45f4e61ap+2);
}

// Terms of every magnitude, many of which cancel.
std::vector<double> RandomTerms(std::mt19937_64& random, int max_exponent) {
  std::uniform_int_distribution<int> exponent(-1074, max_exponent);
  std::uniform_real_distribution<double> mantissa(-1, 1);
  std::vector<double> terms;
  const size_t size = random() % 60 + 1;
  while (terms.size() < size) {
    const double term = std::ldexp(mantissa(random), exponent(random));
    terms.push_back(term);
    if (random() % 3 == 0) terms.push_back(-std::nextafter(term, kInf));
    if (random() % 5 == 0) terms.push_back(std::ldexp(1, exponent(random)));
  }
  std::shuffle(terms.begin(), terms.end(), random);
  return terms;
}

// Sums parts of random length, some of which travel as partials.
ExactSum SumInGroups(absl::Span<const double> terms, std::mt19937_64& random) {
  ExactSum total;
  for (size_t first = 0; first < terms.size();) {
    const size_t count = std::min<size_t>(random() % 9, terms.size() - first);
    ExactSum part = SumOf(terms.subspan(first, count));
    if (random() % 2) part = *ExactSum::FromPartials(part.partials());
    total.Add(part);
    first += count;
  }
  return total;
}

TEST(ExactSumTest, RandomSumsEqualTheLongIntegerInAnyOrderAndGrouping) {
  std::mt19937_64 random(20240607);
  for (int trial = 0; trial < 4000; ++trial) {
    const int max_exponent = trial % 2 ? 1023 : trial % 200 - 1000;
    std::vector<double> terms = RandomTerms(random, max_exponent);
    const uint64_t expected = Bits(OracleSum(terms));

    for (int order = 0; order < 4; ++order) {
      const ExactSum sum = SumOf(terms);
      const ExactSum grouped = SumInGroups(terms, random);

      ASSERT_EQ(Bits(sum.Round()), expected) << "trial " << trial;
      ASSERT_EQ(Bits(grouped.Round()), expected) << "trial " << trial;
      ASSERT_EQ(sum.partials(), grouped.partials()) << "trial " << trial;
      std::shuffle(terms.begin(), terms.end(), random);
    }
  }
}

TEST(ExactSumTest, TiesAreBrokenByWhatIsFarBelow) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 4000; ++trial) {
    const double top = std::ldexp(1 + random() % 8, random() % 1900 - 900);
    const double half_ulp = (std::nextafter(top, kInf) - top) / 2;
    const double sign = random() % 2 ? 1 : -1;
    const double rest = (random() % 3 - 1.0) * kTiny;
    const std::vector<double> terms = {
        top, sign * half_ulp / (random() % 2 + 1), rest};

    ASSERT_EQ(Bits(SumOf(terms).Round()), Bits(OracleSum(terms)))
        << terms[0] << " " << terms[1] << " " << terms[2];
  }
}

TEST(ExactSumTest, SumsBeyondTheLargestDoubleComeBack) {
  EXPECT_EQ(SumOf({kMax, kMax, kMax, -kMax, -kMax}).Round(), kMax);
  EXPECT_EQ(SumOf({-kMax, -kMax, -kMax, kMax, kMax, 1.0}).Round(), -kMax);
  EXPECT_EQ(SumOf({kMax, kMax, 3 * kTiny, -kMax, -kMax}).Round(), 3 * kTiny);
  EXPECT_EQ(SumOf({kMax, kMax}).Round(), kInf);
  EXPECT_EQ(SumOf({-kMax, -kMax}).Round(), -kInf);
}

TEST(ExactSumTest, LastRoundingBesideTheLargestDoubleIsCorrect) {
  const double half_ulp = 0x1p970;

  EXPECT_EQ(SumOf({kMax, half_ulp}).Round(), kInf);
  EXPECT_EQ(SumOf({kMax, half_ulp, -kTiny}).Round(), kMax);
  EXPECT_EQ(SumOf({kMax, kMax, half_ulp, -kTiny, -kMax}).Round(), kMax);
  EXPECT_EQ(SumOf({kMax, half_ulp / 2}).Round(), kMax);
}

TEST(ExactSumTest, LargeSumTravelsAsPartials) {
  const ExactSum sum = SumOf({kMax, kMax, kMax, 1.0});

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(ExactSum received,
                                 ExactSum::FromPartials(sum.partials()));
  received.Add(SumOf({-kMax, -kMax, -kMax}));

  EXPECT_EQ(received.Round(), 1.0);
}

TEST(ExactSumTest, EnormousSumTravelsAsInfinity) {
  EXPECT_THAT(SumOf(std::vector<double>(1000, kMax)).partials(),
              ElementsAre(kInf));
  EXPECT_THAT(SumOf(std::vector<double>(1000, -kMax)).partials(),
              ElementsAre(-kInf));
}

TEST(ExactSumTest, PartialsAreFewEvenForTermsOfEveryMagnitude) {
  ExactSum sum;
  for (int exponent = 1023; exponent >= -1074; exponent -= 2) {
    sum.Add(std::ldexp(exponent % 3 ? 1 : -1, exponent));
  }

  EXPECT_LE(sum.partials().size(), ExactSum::kMaxPartials);
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(ExactSum received,
                                 ExactSum::FromPartials(sum.partials()));
  EXPECT_EQ(received.partials(), sum.partials());
}

TEST(ExactSumTest, NonFiniteTermsDecideTheSum) {
  EXPECT_EQ(SumOf({1.0, kInf, 2.0}).Round(), kInf);
  EXPECT_EQ(SumOf({-kInf, kMax, kMax}).Round(), -kInf);
  EXPECT_TRUE(std::isnan(SumOf({kInf, -kInf}).Round()));
  EXPECT_TRUE(std::isnan(SumOf({1.0, kNan, kInf}).Round()));
}

TEST(ExactSumTest, NonFiniteSumsTravelAndMerge) {
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      ExactSum sum, ExactSum::FromPartials(SumOf({1.0, kInf}).partials()));

  EXPECT_EQ(sum.Round(), kInf);
  sum.Add(SumOf({-kInf}));
  EXPECT_TRUE(std::isnan(sum.Round()));
}

TEST(ExactSumTest, EmptyAndCancelledSumsAreZero) {
  EXPECT_THAT(ExactSum().partials(), IsEmpty());
  EXPECT_EQ(Bits(ExactSum().Round()), Bits(0.0));
  EXPECT_THAT(SumOf({1.5, -1.5}).partials(), IsEmpty());
  EXPECT_EQ(Bits(SumOf({-0.0}).Round()), Bits(0.0));
}

TEST(ExactSumTest, SumMayBeAddedToItself) {
  ExactSum sum = SumOf({1e100, 1.0, 1e-100});

  sum.Add(sum);

  EXPECT_EQ(sum.partials(), SumOf({2e100, 2.0, 2e-100}).partials());
}

TEST(ExactSumTest, TooManyPartialsAreRefused) {
  EXPECT_THAT(ExactSum::FromPartials(std::vector<double>(48, 1.0)), IsOk());
  EXPECT_THAT(
      ExactSum::FromPartials(std::vector<double>(49, 1.0)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("49 partial")));
}

TEST(LossSumTest, PartsAddUp) {
  LossSum total;
  total.Add({SumOf({1e16, 1.0}), /*weight=*/2, /*nonfinite=*/0});
  total.Add({SumOf({-1e16}), /*weight=*/1, /*nonfinite=*/1});

  EXPECT_EQ(total.sum.Round(), 1.0);
  EXPECT_EQ(total.weight, 3);
  EXPECT_EQ(total.nonfinite, 1);
}

}  // namespace
}  // namespace pipestage
