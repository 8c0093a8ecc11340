#include "tests/crash/log.h"

#include <fstream>
#include <sstream>

namespace penstock::test {

LogReading read_log(const std::string& path) {
  LogReading reading;
  std::size_t durable = 0;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    if (!line.ends_with(" .")) continue;
    line.resize(line.size() - 2);
    std::istringstream words(line);
    std::string what;
    words >> what;
    std::vector<Delivery>& deliveries = reading.deliveries;
    if (what == "batch") {
      deliveries.push_back(line.substr(6));
      reading.finished = false;
    } else if (what == "saved") {
      std::size_t bytes = 0;
      words >> durable >> bytes;
      reading.largest_state = std::max(reading.largest_state, bytes);
      if (durable != deliveries.size())
        reading.broken.push_back("saved behind " + std::to_string(durable) + " of " +
                                 std::to_string(deliveries.size()));
    } else if (what == "resume") {
      std::size_t from = 0;
      words >> from;
      if (from < durable || from > deliveries.size()) {
        reading.broken.push_back("continued at " + std::to_string(from) + " although " +
                                 std::to_string(durable) + " was durable and " +
                                 std::to_string(deliveries.size()) + " acknowledged");
      }
      deliveries.resize(std::min(from, deliveries.size()));
    } else if (what == "first") {
      double ms = 0;
      words >> ms;
      reading.first_batch_ms.push_back(ms);
    } else if (what == "kill") {
      ++reading.kill_points[line.substr(5)];
    } else if (what == "end") {
      reading.finished = true;
    }
  }
  return reading;
}

Difference compare(const std::vector<Delivery>& expected, const std::vector<Delivery>& seen) {
  Difference difference;
  std::map<Delivery, int> balance;
  for (const Delivery& delivery : expected) ++balance[delivery];
  for (const Delivery& delivery : seen) --balance[delivery];
  for (const auto& [delivery, count] : balance) {
    difference.missing += count > 0 ? count : 0;
    difference.repeated += count < 0 ? -count : 0;
  }
  for (std::size_t i = 0; i < std::min(expected.size(), seen.size()); ++i)
    difference.out_of_order += expected[i] != seen[i] ? 1 : 0;
  return difference;
}

}  // namespace penstock::test
