// Reports of runs that never happened.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/penstock/report/report.h"

namespace penstock::tool {

inline StageStats stage(const char* name, double busy_s, double wait_s = 0,
                        const char* waits_on = "") {
  StageStats stats;
  stats.name = name;
  stats.items = 1000;
  stats.bytes = 4096;
  stats.busy_s = busy_s;
  stats.wait_s = wait_s;
  stats.waits_on = waits_on;
  return stats;
}

/// Returns a report of ten seconds on two threads of four cores, with a consumer that always waits.
inline Report run(std::vector<StageStats> stages, double cpu_s) {
  Report report;
  report.of_program = true;
  report.elements = 1000;
  report.batches = 10;
  report.epochs = 1;
  report.wall_s = 10;
  report.wait_s = 9.5;
  report.first_batch_s = 0.1;
  report.cpu_s = cpu_s;
  report.cpus = 4;
  report.seed = 7;
  report.io = "pread";
  report.stats.threads = 2;
  report.stats.stages = std::move(stages);
  report.stats.memory = {96 << 20, 1 << 20, 73 << 20};
  return report;
}

/// Returns a report of two towers that took 100 steps of 50 ms each, and stalled for the rest.
inline Report fed(const std::string& cause, double gain_s) {
  Report report = run({stage("tar[0]", 1), stage("map[1] mine", 1)}, 2);
  for (const char* device : {"host:0", "host:1"}) {
    TowerStats tower;
    tower.device = device;
    tower.steps = 100;
    tower.elements = 500;
    tower.wall_s = 10;
    tower.step_s = 5;
    tower.stall_s = 4.9;
    tower.other_s = 0.1;
    tower.copy_s = 2;
    tower.causes = {{"copy", 4.9}};
    tower.gains = {{cause, gain_s}};
    report.towers.push_back(tower);
  }
  report.feed = {cause, gain_s, 1000 / (10 - gain_s), 1000 / (10 - gain_s / 2)};
  report.device_slots = 2;
  return report;
}

}  // namespace penstock::tool
