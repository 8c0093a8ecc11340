// What is read of /proc/stat.
#include <gtest/gtest.h>

#include <sstream>

#include <sched.h>

#include "pipeline/core/cpu_use.h"

namespace penstock {
namespace cpu_use_test {

TEST(CpuUse, CountsWhatTheseCpusDidForAnyoneAndTheHostsTime) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(1, &cpus);
  CPU_SET(12, &cpus);
  struct Case {
    const char* stat;
    double seconds;
  };
  const Case cases[] = {
      {"", 0},
      {"cpu  1 2 3 4 5 6 7 8 9 10\nctxt 5\n", 0},
      {"cpu0 100 0 0 0 0 0 0 0 0 0\n", 0},
      // Without idle and iowait, and without what is a part of user and nice.
      {"cpu1 100 200 300 9000 9000 400 500 600 70 80\n", 21},
      {"cpu1 100 0 0 0 0 0 0 0 0 0\ncpu2 9 9 9 9 9 9 9 9 9 9\ncpu12 0 0 300 0 0 0 0 0 0 0\n", 4},
      {"cpu1 100\n", 1},
      {"cpu1 many\ncpux 100\n", 0},
      {"cpu-1 100\ncpu99999999999999999999 100\n", 0},
  };
  for (const Case& each : cases) {
    std::istringstream stat(each.stat);
    EXPECT_EQ(used_cpu_seconds(stat, cpus, 100), each.seconds) << each.stat;
  }
}

}  // namespace cpu_use_test
}  // namespace penstock
