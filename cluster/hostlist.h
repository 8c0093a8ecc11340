// Slurm's lists of hosts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::cluster {

/// Expands a Slurm list, and returns its first `most` hosts in the order of `scontrol show
/// hostnames`. "rack[1-2]node[08-09,11],gpu1" gives rack1node08, rack1node09, rack1node11,
/// rack2node08, ..., gpu1. A name may have several brackets, and text behind the last one. Names
/// are separated by commas or blanks. Checks the whole list, but makes no more than `most` names,
/// however many it describes. Throws Error{invalid_argument}, which begins with `what`, for text
/// that is not such a list.
std::vector<std::string> hosts_in(std::string_view list, std::size_t most, const std::string& what);

}  // namespace penstock::cluster
