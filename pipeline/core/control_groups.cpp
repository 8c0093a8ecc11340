#include <penstock/internal/control_groups.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>

namespace penstock {
namespace {

/// Returns the first number of a file and, if asked for, the second; 0 if there is none ("max",
/// "-1").
double first_number(const std::string& path, double* second = nullptr) {
  std::ifstream file(path);
  double value = 0;
  if (!(file >> value) || value <= 0) return 0;
  if (second != nullptr) file >> *second;
  return value;
}

/// Returns the number after a word of a file such as "nr_periods 3\nthrottled_usec 125\n", or after
/// a word and "=" as in "some avg10=0.00 total=125"; 0 if there is none.
double number_behind(const std::string& path, const std::string& word) {
  std::ifstream file(path);
  for (std::string token; file >> token;) {
    if (token == word) {
      double value = 0;
      file >> value;
      return value;
    }
    if (token.starts_with(word + "=")) return std::strtod(token.c_str() + word.size() + 1, nullptr);
  }
  return 0;
}

/// True if `wanted` is in a comma-separated list of controllers.
bool names(const std::string& controllers, const std::string& wanted) {
  return ("," + controllers + ",").find("," + wanted + ",") != std::string::npos;
}

/// Calls `look` with the folder of the group `path` below `root`, and with that of each group
/// around it.
void for_each_group(const std::string& root, std::string path,
                    const std::function<void(const std::string& folder)>& look) {
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    look(root + path + "/");
    if (path.empty()) return;
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

/// Returns the smallest limit of the group `path` below `root` and of the groups around it.
double least(const std::string& root, const std::string& path,
             const std::function<double(const std::string& folder)>& limit_of) {
  double found = 0;
  for_each_group(root, path, [&](const std::string& folder) {
    const double limit = limit_of(folder);
    if (limit > 0) found = found > 0 ? std::min(found, limit) : limit;
  });
  return found;
}

double least_of(double a, double b) {
  return a > 0 && b > 0 ? std::min(a, b) : std::max(a, b);
}

}  // namespace

ControlGroups::ControlGroups(std::string root, const std::string& self) : root_(std::move(root)) {
  std::ifstream file(self);
  for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) path_ = path;
    if (names(controllers, "cpu")) cpu_path_ = path;
    if (names(controllers, "memory")) memory_path_ = path;
  }
}

double ControlGroups::cpu_quota() const {
  const auto of = [](const char* quota_name, const char* period_name) {
    return [=](const std::string& folder) {
      double period = 0;
      const double quota =
          first_number(folder + quota_name, period_name == nullptr ? &period : nullptr);
      if (period_name != nullptr) period = first_number(folder + period_name);
      return period > 0 ? quota / period : 0;
    };
  };
  return least_of(least(root_, path_, of("cpu.max", nullptr)),
                  least(root_ + "/cpu", cpu_path_, of("cpu.cfs_quota_us", "cpu.cfs_period_us")));
}

double ControlGroups::throttled_s() const {
  double longest = 0;
  for_each_group(root_, path_, [&](const std::string& folder) {
    longest = std::max(longest, 1e-6 * number_behind(folder + "cpu.stat", "throttled_usec"));
  });
  for_each_group(root_ + "/cpu", cpu_path_, [&](const std::string& folder) {
    longest = std::max(longest, 1e-9 * number_behind(folder + "cpu.stat", "throttled_time"));
  });
  return longest;
}

double ControlGroups::memory_limit() const {
  const auto of = [](const char* name) {
    return [=](const std::string& folder) { return first_number(folder + name); };
  };
  return least_of(least(root_, path_, of("memory.max")),
                  least(root_ + "/memory", memory_path_, of("memory.limit_in_bytes")));
}

}  // namespace penstock
