// The variables with which launchers describe a process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/internal/launchers.h>

#include "cluster/cluster.h"
#include "cluster/environment.h"

namespace penstock::cluster {

/// One source's description of the process.
struct Claim {
  Cluster cluster{};
  std::string rank_said{};   ///< for errors: "RANK=1"
  std::string world_said{};  ///< for errors: "WORLD_SIZE=4"
  /// True if this launcher may have started another launcher, whose description takes precedence.
  /// This claim then need not agree.
  bool may_be_outer = false;
};

/// Returns the claims of all launchers that describe the process, by descending precedence. Throws
/// Error{invalid_argument} for variables that are incomplete or wrong.
std::vector<Claim> claims_in(const Environment& environment);

/// Returns the claim of a launcher that numbers its processes; nothing if its variables for the
/// rank and the number of processes are both not set.
std::optional<Claim> numbered_claim(const Environment& environment, const LauncherVariables& names);

/// Returns a random text that the cluster's launcher made and gave to the processes of this job
/// alone; empty if it gives none. Open MPI 4 has one, the key of its transports.
std::string secret_of_launcher(const Environment& environment, const Cluster& cluster);

/// Returns the text "RANK=1" of a variable that is set.
std::string said(const Environment& environment, std::string_view name);

/// Returns a port that jobs on one host are unlikely to share. If two do, the user sets
/// --rendezvous.
std::string port_of(std::uint64_t job);

}  // namespace penstock::cluster
