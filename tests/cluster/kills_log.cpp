#include "tests/cluster/kills_log.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace penstock::cluster::test {

KillsLog read_kills_log(const std::string& path) {
  KillsLog log;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.ends_with(" .")) continue;  // torn by a kill
    std::istringstream words(line.substr(0, line.size() - 2));
    int run = 0;
    std::string what;
    words >> run >> what;
    if (what == "step") {
      std::uint64_t step = 0;
      int tower = 0;
      std::string ids;
      words >> step >> tower >> ids;
      std::vector<int>& told = log.steps[{step, tower}];
      told.clear();
      std::istringstream list(ids == "-" ? "" : ids);
      for (std::string id; std::getline(list, id, ',');) told.push_back(std::stoi(id));
      const auto [first, fresh] = log.first_step.emplace(run, step);
      if (!fresh) first->second = std::min(first->second, step);
      log.last_step[run][tower] = step;
    } else if (what == "kill") {
      std::string point;
      std::getline(words >> std::ws, point);
      ++log.kill_points[point];
    } else if (what == "end") {
      std::getline(words >> std::ws, log.end);
    }
  }
  return log;
}

Count count_elements(const KillsLog& log, const KillsLog& undisturbed, int elements, int epochs) {
  Count count;
  std::map<int, int> times;
  for (const auto& [at, ids] : log.steps) {
    for (const int id : ids) ++times[id];
    const auto other = undisturbed.steps.find(at);
    count.elsewhere += other == undisturbed.steps.end() || other->second != ids;
  }
  for (int id = 0; id < elements; ++id) {
    count.missing += std::max(0, epochs - times[id]);
    count.repeated += std::max(0, times[id] - epochs);
  }
  return count;
}

}  // namespace penstock::cluster::test
