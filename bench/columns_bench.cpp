// Rows of a table made ids and numbers, on one thread:
//   penstock_columns_bench COLUMNS DATA [SECONDS [BATCH]]
// A JSON line: rows a second, and a second of the process's CPU time. bench/peers/columns.py makes
// tables, and measures TensorFlow's columns the same way.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <penstock/iterator.h>

#include "bench/main.h"
#include "tools/penstock/run/columns_file.h"
#include "towers/batch_rows.h"

namespace penstock::bench {

int run(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  if (arguments.size() < 3) return 2;
  const double seconds = arguments.size() > 3 ? std::stod(arguments[3]) : 5;
  const std::int64_t batch = arguments.size() > 4 ? std::stoll(arguments[4]) : 500;
  const towers::ColumnModel columns = tool::load_columns(arguments[1]);
  const Dataset batches = towers::batch_rows(
      towers::transform_columns(tool::open_table(arguments[2], columns, {}).repeat(),
                                columns.columns(), columns.label),
      batch);
  const auto cpu = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  std::int64_t rows = 0;
  Clock::time_point began;
  double used = 0;
  int warm = 5;  // batches
  for (const Element& one : batches.iterate({.threads = 1})) {
    if (warm > 0) {
      if (--warm == 0) {
        began = Clock::now();
        used = cpu();
      }
      continue;
    }
    rows += one.valid_rows;
    if (since(began) > seconds) break;
  }
  std::printf("{\"rows_per_second\": %.0f, \"rows_per_cpu_second\": %.0f}\n",
              static_cast<double>(rows) / since(began), static_cast<double>(rows) / (cpu() - used));
  return 0;
}

}  // namespace penstock::bench
