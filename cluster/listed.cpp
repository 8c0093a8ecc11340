#include "cluster/listed.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/members.h"
#include "cluster/refuse.h"
#include "cluster/tf_config.h"

namespace penstock::cluster {
namespace {

std::string host_of(std::string_view address) {
  return std::string(address.substr(0, address.rfind(':')));
}

Claim member_claim(const std::vector<Peer>& members, Role role, int index,
                   const std::string& source) {
  Claim claim;
  Cluster& cluster = claim.cluster;
  cluster.source = source;
  cluster.role = role;
  cluster.index = index;
  cluster.rank = -1;
  cluster.world = 0;
  cluster.peers = members;
  std::string host;
  for (const Peer& peer : members) {
    if (peer.role != Role::chief && peer.role != Role::worker) continue;
    if (peer.role == role && peer.index == index) {
      cluster.rank = cluster.world;
      host = host_of(peer.address);
    }
    ++cluster.world;
  }
  cluster.local_world = 0;
  for (int r = 0; r < cluster.world; ++r) {
    if (host_of(members[static_cast<std::size_t>(r)].address) != host) continue;
    if (r == cluster.rank) cluster.local_rank = cluster.local_world;
    ++cluster.local_world;
  }
  cluster.local_world = std::max(cluster.local_world, 1);
  if (members.size() > 1 || role == Role::evaluator)
    cluster.rendezvous = "grpc://" + members.front().address;
  claim.rank_said = source + " (" + std::string(name_of(role)) + " " + std::to_string(index) +
                    ", rank " + std::to_string(cluster.rank) + ")";
  claim.world_said = source + " (" + std::to_string(cluster.world) + " that train)";
  return claim;
}

/// Makes the claim of an evaluator that knows no other process.
Claim evaluator_claim(const std::string& source) {
  Claim claim;
  claim.cluster.role = Role::evaluator;
  claim.cluster.rank = -1;
  claim.cluster.world = 0;
  claim.cluster.source = source;
  return claim;
}

}  // namespace

std::optional<Claim> claim_in(const ClusterFlags& flags) {
  if (flags.cluster.empty()) {
    if (flags.role.empty()) return std::nullopt;
    if (parse_role(flags.role) != Role::evaluator)
      refuse("--role " + flags.role + " needs --cluster, which lists the other processes");
    return evaluator_claim("flags");
  }
  const std::vector<Peer> members = parse_members(flags.cluster, "--cluster");
  const Role role =
      !flags.role.empty() ? parse_role(flags.role)
      : std::ranges::any_of(members, [](const Peer& peer) { return peer.role == Role::worker; })
          ? Role::worker
          : Role::chief;
  const auto count = std::ranges::count(members, role, &Peer::role);
  const std::string name(name_of(role));
  if (!flags.rank && count != 1)
    refuse("--cluster lists " + std::to_string(count) + " members with the role " + name +
           ": give --rank, the index of this process among them");
  const int index = flags.rank.value_or(0);
  if (index < 0 || index >= count)
    refuse("--rank " + std::to_string(index) + ": --cluster lists " + std::to_string(count) +
           " members with the role " + name + ", counted from 0");
  return member_claim(members, role, index, "--cluster");
}

std::optional<Claim> tf_config_claim(const Environment& environment) {
  const std::string* text = environment.find("TF_CONFIG");
  const std::optional<TfConfig> config = text == nullptr ? std::nullopt : parse_tf_config(*text);
  if (!config) return std::nullopt;
  return member_claim(config->members, config->role, config->index, "TF_CONFIG");
}

}  // namespace penstock::cluster
