// A check whether the members of a job reach each other.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "cluster/cluster.h"

namespace penstock::cluster {

/// The result of connecting to one address.
struct Reached {
  std::string who{};      ///< "worker 1", "rank 0"
  std::string address{};  ///< "host:port"
  /// Empty: the address was reached. Else the reason why the last attempt failed: "unknown host",
  /// "refused", "no answer".
  std::string problem{};
};

/// Connects to all other members, and retries each until it was reached or the time is over. Also
/// listens at this process's own address, if it has one, until the end of the time or until `stop`
/// returns true, since other members may start later. Run it on all hosts at once. If the launcher
/// gives no addresses, rank 0 listens at the rendezvous address and the other ranks connect to it.
/// Only connections are made; no data are exchanged. Throws Error{unavailable} if it cannot listen.
std::vector<Reached> reach(const Cluster& cluster, std::chrono::milliseconds time,
                           const std::function<bool()>& stop);

}  // namespace penstock::cluster
