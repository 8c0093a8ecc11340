// Memory over many batches: penstock_growth_bench [BATCHES]. Records of 1 to 16 kB, in
// batches of 64 and a budget of 64 MiB. Prints a JSON line: the most memory that the run had by its
// own account, as a share of the budget, and what the process had grown by between a tenth of the
// way and the end.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>

#include <penstock/penstock.h>

#include "bench/main.h"

namespace penstock::bench {
namespace {

double resident_mb() {
  std::ifstream file("/proc/self/statm");
  double all = 0;
  double resident = 0;
  file >> all >> resident;
  return 1e-6 * resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

int run(int argc, char** argv) {
  const int batches = argc > 1 ? std::max(10, std::atoi(argv[1])) : 10'000;
  SyntheticOptions options;
  options.count = 1'000'000;
  options.bytes = {Distribution::Kind::uniform, 1'000, 16'000};
  const Dataset dataset = synthetic(options).shuffle().repeat().batch(64);
  Iterator iterator = dataset.iterate({.seed = 7, .threads = 2, .memory_bytes = 64 << 20});
  double early = 0;
  for (int i = 0; i < batches; ++i) {
    (void)iterator.next().value();
    if (i == batches / 10) early = resident_mb();
  }
  const MemoryStats memory = iterator.stats().memory;
  std::printf(
      "{\"bench\":\"growth\",\"batches\":%d,\"peak_of_budget\":%.3f,\"resident_mb\":%.1f,"
      "\"growth_mb\":%.2f}\n",
      batches, static_cast<double>(memory.peak_bytes) / static_cast<double>(memory.budget_bytes),
      resident_mb(), resident_mb() - early);
  return 0;
}

}  // namespace penstock::bench
