#include "tests/cluster/served_log.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace penstock::cluster::test {
namespace {

template <typename T>
std::vector<T> numbers_in(const std::string& text) {
  std::vector<T> numbers;
  std::istringstream list(text == "-" ? "" : text);
  for (std::string one; std::getline(list, one, ',');)
    numbers.push_back(static_cast<T>(std::stoull(one)));
  return numbers;
}

}  // namespace

ServedLog read_served_log(const std::string& path) {
  ServedLog log;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.ends_with(" .")) continue;  // torn by a kill
    std::istringstream words(line.substr(0, line.size() - 2));
    std::string what, run, list;
    int server = 0;
    int replica = 0;
    std::uint64_t number = 0;
    words >> what;
    if (what == "begin") {
      words >> run >> server >> list;
      log.servers[{run, server}].begun = numbers_in<std::uint64_t>(list);
      if (std::ranges::find(log.runs, run) == log.runs.end()) log.runs.push_back(run);
    } else if (what == "took" || what == "told") {
      words >> run >> server >> replica >> number;
      ServedLog::Server& of = log.servers[{run, server}];
      if (what == "took") {
        of.took[replica].push_back(number);
      } else {
        of.told[replica].insert(number);
      }
    } else if (what == "ids") {
      words >> replica >> number >> list;
      const auto [at, fresh] = log.ids.emplace(std::pair(replica, number), numbers_in<int>(list));
      log.other_ids += !fresh && at->second != numbers_in<int>(list);
    } else if (what == "lost") {
      ++log.losses;
    } else if (what == "end") {
      std::getline(words >> std::ws, log.end);
    }
  }
  return log;
}

PushCount count_pushes(const ServedLog& log, int replicas, std::uint64_t batches, int elements,
                       int epochs) {
  PushCount count;
  for (const auto& [run, server] : log.servers) {
    for (const auto& [replica, numbers] : server.took) {
      std::uint64_t next = server.begun.at(static_cast<std::size_t>(replica)) + 1;
      for (const std::uint64_t number : numbers) {
        count.twice += number < next;
        count.left_out += number > next;
        next = std::max(next, number + 1);
      }
    }
    for (const auto& [replica, told] : server.told) {
      const auto took = server.took.find(replica);
      for (const std::uint64_t number : told)
        count.lost += took == server.took.end() ||
                      std::ranges::find(took->second, number) == took->second.end();
    }
  }
  std::map<int, int> times;
  for (int replica = 0; replica < replicas; ++replica) {
    for (std::uint64_t number = 1; number <= batches; ++number) {
      const auto found = log.ids.find({replica, number});
      if (found == log.ids.end()) continue;
      for (const int id : found->second) ++times[id];
    }
  }
  for (int id = 0; id < elements; ++id) {
    count.missing += std::max(0, epochs - times[id]);
    count.repeated += std::max(0, times[id] - epochs);
  }
  return count;
}

}  // namespace penstock::cluster::test
