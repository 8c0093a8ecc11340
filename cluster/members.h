// Lists of a job's members, in the formats of flags and JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster.h"

namespace penstock::cluster {

/// Parses the members of a job; returns them in the order of `Cluster::peers`. In a job without a
/// chief, worker 0 is the chief, as in TensorFlow 2. In JSON, the members of a role are a list, or
/// an object of all numbers from 0 on: {"worker": {"0": "a:1", "1": "b:1"}}. `what` names the text
/// in errors: "TF_CONFIG", "--cluster". Throws Error{invalid_argument} for text that is not a list,
/// numbers that are missing, unknown roles, several chiefs, addresses without a port, and an
/// address that two members have.
std::vector<Peer> parse_members(std::string_view text, const std::string& what);

/// Throws Error{invalid_argument} naming `what` unless it is "host:port" or "[v6]:port".
void check_address(std::string_view address, const std::string& what);

/// Returns the first host of a Slurm list: "node[08-11,20],gpu1" gives "node08". Throws what
/// `hosts_in` throws; `what` names the list.
std::string first_host(std::string_view list, const std::string& what = "SLURM_NODELIST");

}  // namespace penstock::cluster
