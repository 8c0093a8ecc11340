// A job whose variables are on parameter servers.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "towers/servers/parameter_server.h"

namespace penstock::towers {

/// A process's description of the job. Process 0 is the chief; all processes have as many towers.
struct ServedJob {
  /// The same in all processes, in the same order. Several threads may call a server at the same
  /// time.
  std::vector<std::shared_ptr<ParameterServer>> servers{};
  /// The addresses at which server 0 reaches the servers; set by the chief.
  std::vector<std::string> addresses{};
  int process = 0;
  int processes = 1;
  /// Facts that all processes must have in common, in addition to those that trainers compare
  /// themselves.
  std::map<std::string, std::string> facts{};
  /// An id that no other process of the job ever has.
  std::string incarnation{};
  std::chrono::milliseconds beat_every{1000};
  /// How long to wait for servers and the chief at the beginning.
  std::chrono::milliseconds join_timeout{300'000};
  /// How long the chief waits at the end for lost processes to come back. It waits for living
  /// processes without a limit.
  std::chrono::milliseconds lost_wait{300'000};
};

}  // namespace penstock::towers
