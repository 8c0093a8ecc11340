// Figures that tests count, for bench/results/reliability.md.
#pragma once

#include <cstdarg>
#include <cstdio>

namespace penstock::test {

/// Prints "figure: F3: …", which `tools/reliability.sh` collects.
[[gnu::format(printf, 2, 3)]] inline void figure(const char* row, const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  std::printf("figure: %s: ", row);
  std::vprintf(format, values);
  std::printf("\n");
  std::fflush(stdout);
  va_end(values);
}

}  // namespace penstock::test
