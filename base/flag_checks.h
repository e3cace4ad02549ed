#ifndef PIPESTAGE_BASE_FLAG_CHECKS_H_
#define PIPESTAGE_BASE_FLAG_CHECKS_H_

#include <cmath>
#include <string>

#include "CLI/CLI.hpp"

namespace pipestage {

// Seconds of a flag: more than 0 (or 0 too) and at most thirty years. CLI11's
// own ranges let NaN pass.
inline CLI::Validator SecondsCheck(bool or_zero) {
  constexpr double kMax = 1e9;
  return CLI::Validator(
      [or_zero](std::string& text) -> std::string {
        double seconds = NAN;
        const bool parsed = CLI::detail::lexical_cast(text, seconds);
        if (parsed && seconds <= kMax &&
            (seconds > 0 || (or_zero && seconds == 0))) {
          return "";
        }
        return "\"" + text + "\" is no number of seconds " +
               (or_zero ? "from 0" : "above 0") + " to 1e9";
      },
      "SECONDS");
}
inline CLI::Validator PositiveSeconds() { return SecondsCheck(false); }
inline CLI::Validator SecondsOrZero() { return SecondsCheck(true); }

}  // namespace pipestage

#endif  // PIPESTAGE_BASE_FLAG_CHECKS_H_
