// What numbers options take.
#pragma once

#include <cmath>
#include <string>

#include <CLI/CLI.hpp>

namespace penstock::tool {

/// CLI's own checks let NaN pass, and name their limits with 300 digits.
inline CLI::Validator above_zero() {
  return {[](std::string& text) -> std::string {
            double value = 0;
            if (CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value > 0)
              return {};
            return "must be a finite number above 0, not " + text;
          },
          "POSITIVE"};
}

}  // namespace penstock::tool
