// The name or address by which other ranks reach this host.
#pragma once

#include <string>

#include "cluster/cluster.h"

namespace penstock::cluster {

/// Returns this host's name in the list of members, which its certificate names. Without a list,
/// returns the address from which packets reach the rendezvous.
std::string own_host(const Cluster& cluster);

}  // namespace penstock::cluster
