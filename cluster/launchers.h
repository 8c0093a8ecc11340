// The variables with which launchers describe a process.
#pragma once

#include <string>
#include <vector>

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

/// Returns the claims of all sources that describe the process, by descending precedence. Throws
/// Error{invalid_argument} for variables that are incomplete or wrong.
std::vector<Claim> claims_in(const Environment& environment, const ClusterFlags& flags);

}  // namespace penstock::cluster
