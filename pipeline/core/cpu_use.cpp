#include "pipeline/core/cpu_use.h"

#include <array>
#include <cstdlib>
#include <sstream>
#include <string>

namespace penstock {

double used_cpu_seconds(std::istream& stat, const cpu_set_t& cpus, double ticks) {
  double used = 0;
  for (std::string line; std::getline(stat, line);) {  // "cpu3 1 2 3 4 5 6 7 8 9 10"
    if (!line.starts_with("cpu") || line.starts_with("cpu ")) continue;
    char* rest = line.data() + 3;
    const long cpu = std::strtol(rest, &rest, 10);
    if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(static_cast<std::size_t>(cpu), &cpus)) continue;
    // Two more figures are parts of the first two.
    enum { user, nice, system, idle, iowait, irq, softirq, steal, kFigures };
    std::array<double, kFigures> figures{};
    for (double& figure : figures) figure = std::strtod(rest, &rest);
    for (int i = user; i < kFigures; ++i)
      if (i != idle && i != iowait) used += figures[static_cast<std::size_t>(i)];
  }
  return used / ticks;
}

}  // namespace penstock
