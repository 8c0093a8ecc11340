// Control groups of a process: their limits, and the time that these cost it.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// Limits of a process's control groups, version 1 or 2. Each is the least of its own group's and
/// of all groups around it, as far as they are visible; in a container that is often the root only.
/// Each call reads files again. A file that is missing or has other contents means no limit.
/// Immutable. https://docs.kernel.org/admin-guide/cgroup-v2.html
class ControlGroups {
 public:
  /// Finds the groups of a process. `root` is where the hierarchies are mounted, and `self` names
  /// the process's place in them.
  explicit ControlGroups(std::string root = "/sys/fs/cgroup",
                         const std::string& self = "/proc/self/cgroup");

  /// Returns the CPUs' worth of time that the process may use; 0: no limit.
  double cpu_quota() const;
  /// Returns the bytes that the process may have; 0: no limit.
  double memory_limit() const;

  /// Returns the seconds so far in which a quota kept the group's threads from running, or 0 if no
  /// group tells. It is the figure of the group around the process that was stopped longest.
  double throttled_s() const;

 private:
  std::string root_;
  std::string path_;         // version 2
  std::string cpu_path_;     // version 1
  std::string memory_path_;  // version 1
};

}  // namespace penstock
