// Lists of a job's members, in the formats of flags and TF_CONFIG.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster.h"

namespace penstock::cluster {

/// Parses the members of a job; returns them in the order of `Cluster::peers`. In a job without a
/// chief, worker 0 is the chief, as in TensorFlow 2. `what` names the text in errors: "TF_CONFIG",
/// "--cluster". Throws Error{invalid_argument} for text that is not a list, unknown roles, several
/// chiefs, addresses without a port, and an address that two members have.
std::vector<Peer> parse_members(std::string_view text, const std::string& what);

/// The members in TF_CONFIG, and the one that this process is.
struct TfConfig {
  std::vector<Peer> members{};  ///< empty: no cluster named; alone, or an evaluator
  Role role = Role::chief;
  int index = 0;
};
/// Parses TF_CONFIG. Throws what `parse_members` throws, and Error{invalid_argument} for a task
/// that is not listed, unless it is an evaluator.
TfConfig parse_tf_config(std::string_view text);

/// Throws Error{invalid_argument} naming `what` unless it is "host:port" or "[v6]:port".
void check_address(std::string_view address, const std::string& what);

/// Returns the first host of a Slurm list: "node[08-11,20],gpu1" gives "node08".
std::string first_host(std::string_view list);

}  // namespace penstock::cluster
