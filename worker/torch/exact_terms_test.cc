#include "worker/torch/exact_terms.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace pipestage {
namespace {

TEST(ExactTermsTest, EqualsTheExactSumWhateverTheMagnitudes) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-1060, 1000);
  ExactTerms terms;
  ExactSum expected;
  for (int i = 0; i < 5000; ++i) {
    const double term = std::ldexp(mantissa(random), exponent(random));
    terms.Add(term, 1);
    expected.Add(term);
  }

  EXPECT_EQ(terms.Total().sum.Round(), expected.Round());
  EXPECT_EQ(terms.Total().sum.partials(), expected.partials());
  EXPECT_EQ(terms.Total().weight, 5000);
}

TEST(ExactTermsTest, CancellationLosesNothing) {
  ExactTerms terms;
  for (const double term : {1e100, 1.0, 1e-100, -1e100, -1.0}) {
    terms.Add(term, 1);
  }

  EXPECT_EQ(terms.Total().sum.Round(), 1e-100);
}

TEST(ExactTermsTest, AWeightIsThatManyTerms) {
  for (const double term : {0.1, 1e-310, 3e300, 1.0 / 3}) {
    ExactTerms weighted;
    ExactSum repeated;
    weighted.Add(term, 7);
    for (int i = 0; i < 7; ++i) repeated.Add(term);

    EXPECT_EQ(weighted.Total().sum.partials(), repeated.partials()) << term;
    EXPECT_EQ(weighted.Total().weight, 7);
  }
}

TEST(ExactTermsTest, WeightZeroDoesNotCountWhateverItsValue) {
  ExactTerms terms;
  terms.Add(std::numeric_limits<double>::quiet_NaN(), 0);
  terms.Add(2, 1);

  const LossSum total = terms.Total();

  EXPECT_EQ(total.sum.Round(), 2);
  EXPECT_EQ(total.weight, 1);
  EXPECT_EQ(total.nonfinite, 0);
}

TEST(ExactTermsTest, NonFiniteTermsAreCountedAndSpoilTheSum) {
  ExactTerms terms;
  terms.Add(std::numeric_limits<double>::infinity(), 2);
  terms.Add(1, 1);
  EXPECT_EQ(terms.Total().sum.Round(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(terms.Total().nonfinite, 2);

  terms.Add(std::numeric_limits<double>::quiet_NaN(), 1);
  EXPECT_TRUE(std::isnan(terms.Total().sum.Round()));
  EXPECT_EQ(terms.Total().nonfinite, 3);
}

TEST(ExactTermsTest, NothingAddedIsZero) {
  EXPECT_EQ(ExactTerms().Total().sum.Round(), 0);
  EXPECT_EQ(ExactTerms().Total().weight, 0);
}

}  // namespace
}  // namespace pipestage
