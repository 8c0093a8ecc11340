// The control groups that a process is in: their limits, and what those cost it.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// Limits of a process's control groups, version 1 or 2: the least of its own group's and of all
/// groups around it, as far as they can be seen, which in a container is often the root only.
/// Each call reads files anew, and takes one that is not there, or says something else, for no
/// limit. Immutable. https://docs.kernel.org/admin-guide/cgroup-v2.html
class ControlGroups {
 public:
  /// `root` is where the hierarchies are mounted, `self` says where in them the process is.
  explicit ControlGroups(std::string root = "/sys/fs/cgroup",
                         const std::string& self = "/proc/self/cgroup",
                         std::string machine_pressure = "/proc/pressure/cpu");

  /// CPUs' worth of time that the process may use; 0: as much as there is.
  double cpu_quota() const;
  /// Bytes that the process may have; 0: as many as there are.
  double memory_limit() const;

  /// Seconds so far for which a quota kept the group's threads from running, where a group says so;
  /// else 0. Of the group around it that was stopped longest.
  double throttled_s() const;
  /// Seconds so far in which at least one thread that could have run had no CPU (PSI): of the own
  /// group, else of the machine, else 0.
  double cpu_pressure_s() const;

 private:
  std::string root_;
  std::string machine_pressure_;
  std::string path_;         // version 2
  std::string cpu_path_;     // version 1
  std::string memory_path_;  // version 1
};

}  // namespace penstock
