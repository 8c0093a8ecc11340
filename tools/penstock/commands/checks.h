// Validators for options that take numbers.
#pragma once

#include <cmath>
#include <string>

#include <CLI/CLI.hpp>

namespace penstock::tool {

/// Accepts finite numbers above 0. CLI's own checks accept NaN, and print limits with 300 digits.
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
