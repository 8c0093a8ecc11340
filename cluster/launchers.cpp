#include "cluster/launchers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include <penstock/error.h>
#include <penstock/launchers.h>

#include "cluster/members.h"

namespace penstock::cluster {
namespace {

[[noreturn]] void contradict(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, why);
}

std::string said(const Environment& environment, std::string_view name) {
  return std::string(name) + "=" + *environment.find(name);
}

std::string host_of(std::string_view address) {
  return std::string(address.substr(0, address.rfind(':')));
}

/// Returns a port that jobs on one host are unlikely to share. If two do, the user sets
/// --rendezvous.
std::string port_of(std::uint64_t job) {
  constexpr std::uint64_t kFirst = 20'000;
  constexpr std::uint64_t kCount = 10'000;
  return std::to_string(kFirst + job % kCount);
}

std::optional<Claim> claim_of(const Environment& environment, const LauncherVariables& names) {
  const std::optional<int> rank = environment.number(names.rank);
  const std::optional<int> world = environment.number(names.world, 1);
  if (!rank && !world) return std::nullopt;
  if (!rank || !world)
    contradict(said(environment, rank ? names.rank : names.world) + " is set, but " +
               (rank ? names.world : names.rank) + " is not: both are needed, or neither");
  Claim claim;
  claim.rank_said = said(environment, names.rank);
  claim.world_said = said(environment, names.world);
  if (*rank >= *world)
    contradict(claim.rank_said + " and " + claim.world_said +
               " contradict each other: ranks begin at 0");
  Cluster& cluster = claim.cluster;
  cluster.source = names.launcher;
  cluster.rank = *rank;
  cluster.world = *world;
  cluster.role = *rank == 0 ? Role::chief : Role::worker;
  cluster.index = *rank == 0 ? 0 : *rank - 1;
  cluster.local_rank = environment.number(names.local_rank).value_or(0);
  cluster.local_world = environment.number(names.local_world, 1).value_or(cluster.local_rank + 1);
  if (cluster.local_rank >= cluster.local_world)
    contradict(said(environment, names.local_rank) + " and " +
               said(environment, names.local_world) +
               " contradict each other: local ranks begin at 0");
  if (cluster.local_world > cluster.world)
    contradict(said(environment,
                    environment.has(names.local_world) ? names.local_world : names.local_rank) +
               " and " + claim.world_said + " contradict each other: more on one host than in all");
  for (int r = 0; r < *world; ++r)
    cluster.peers.push_back({r == 0 ? Role::chief : Role::worker, r == 0 ? 0 : r - 1, {}});
  return claim;
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

std::optional<Claim> flags_claim(const ClusterFlags& flags) {
  if (flags.cluster.empty()) {
    if (flags.role.empty()) return std::nullopt;
    if (parse_role(flags.role) != Role::evaluator)
      contradict("--role " + flags.role + " needs --cluster: who else is there?");
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
    contradict("--cluster lists " + std::to_string(count) + " members with the role " + name +
               ": --rank says which of them this process is");
  const int index = flags.rank.value_or(0);
  if (index < 0 || index >= count)
    contradict("--rank " + std::to_string(index) + ": --cluster lists " + std::to_string(count) +
               " members with the role " + name + ", from 0 on");
  return member_claim(members, role, index, "--cluster");
}

std::optional<Claim> tf_config_claim(const Environment& environment) {
  const std::string* text = environment.find("TF_CONFIG");
  if (text == nullptr) return std::nullopt;
  const TfConfig config = parse_tf_config(*text);
  if (config.members.empty() && config.role == Role::evaluator) return evaluator_claim("TF_CONFIG");
  if (config.members.empty()) return std::nullopt;
  return member_claim(config.members, config.role, config.index, "TF_CONFIG");
}

std::optional<Claim> torchrun_claim(const Environment& environment) {
  std::optional<Claim> claim = claim_of(environment, kTorchrun);
  if (!claim) return claim;
  const std::string* host = environment.find("MASTER_ADDR");
  std::optional<int> port = environment.number("MASTER_PORT", 1);
  if (host == nullptr || !port) return claim;
  // torchrun itself then listens on MASTER_PORT.
  const std::string* store = environment.find("TORCHELASTIC_USE_AGENT_STORE");
  if (store != nullptr && *store == "True") port = *port == 65535 ? *port - 1 : *port + 1;
  const bool bare_v6 = host->find(':') != std::string::npos && !host->starts_with('[');
  const std::string address = (bare_v6 ? "[" + *host + "]" : *host) + ":" + std::to_string(*port);
  check_address(address, "MASTER_ADDR and MASTER_PORT");
  claim->cluster.rendezvous = "grpc://" + address;
  return claim;
}

std::optional<Claim> open_mpi_claim(const Environment& environment) {
  std::optional<Claim> claim = claim_of(environment, kOpenMpi);
  if (!claim) return claim;
  claim->may_be_outer = true;
  // Open MPI gives rank 0's address only if all ranks are on one host.
  if (claim->cluster.local_world == claim->cluster.world) {
    const std::string* job = environment.find("PMIX_NAMESPACE");
    std::uint64_t number = 0;
    for (const char c : job == nullptr ? std::string() : *job)
      number = number * 31 + static_cast<unsigned char>(c);
    claim->cluster.rendezvous = "grpc://127.0.0.1:" + port_of(number);
  }
  return claim;
}

std::optional<Claim> pmi_claim(const Environment& environment) {
  std::optional<Claim> claim = claim_of(environment, kPmi);
  if (claim) claim->may_be_outer = true;
  return claim;
}

/// Parses "2(x3),1", the number of tasks on each node. Returns that of node `index`; nothing if the
/// text has none.
std::optional<int> tasks_on(std::string_view text, int index) {
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string part(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const std::size_t times = part.find("(x");
    const Environment numbers({{"tasks", part.substr(0, times)},
                               {"times", times == std::string::npos || !part.ends_with(')')
                                             ? "1"
                                             : part.substr(times + 2, part.size() - times - 3)}});
    const int count = numbers.number("times", 1).value_or(1);
    if (index < count) return numbers.number("tasks", 1);
    index -= count;
  }
  return std::nullopt;
}

std::optional<Claim> slurm_claim(const Environment& environment) {
  // Shells within an allocation have these numbers too, but are not steps of it.
  if (!environment.has(kSlurmStep)) return std::nullopt;
  LauncherVariables names = kSlurm;
  if (environment.has("SLURM_STEP_NUM_TASKS")) names.world = "SLURM_STEP_NUM_TASKS";
  std::optional<Claim> claim = claim_of(environment, names);
  if (!claim) return claim;
  claim->may_be_outer = true;
  Cluster& cluster = claim->cluster;
  const int nodes = environment.number("SLURM_STEP_NUM_NODES", 1)
                        .value_or(environment.number("SLURM_NNODES", 1).value_or(1));
  if (const std::string* tasks = environment.find("SLURM_STEP_TASKS_PER_NODE"))
    cluster.local_world = tasks_on(*tasks, environment.number("SLURM_NODEID").value_or(0))
                              .value_or(cluster.local_world);
  else if (nodes == 1)
    cluster.local_world = cluster.world;
  const auto job = static_cast<std::uint64_t>(environment.number("SLURM_JOB_ID").value_or(0));
  std::uint64_t step = 0;  // numbers of shells and scripts exceed an int
  for (const char c : *environment.find(kSlurmStep))
    step = step * 10 + static_cast<unsigned char>(c);
  const char* list =
      environment.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_NODELIST";
  const std::string* hosts = environment.find(list);
  if (nodes == 1 || hosts == nullptr) {
    if (nodes == 1) cluster.rendezvous = "grpc://127.0.0.1:" + port_of(job * 31 + step);
  } else {
    const std::string address = first_host(*hosts) + ":" + port_of(job * 31 + step);
    check_address(address, list);
    cluster.rendezvous = "grpc://" + address;
  }
  return claim;
}

}  // namespace

std::vector<Claim> claims_in(const Environment& environment, const ClusterFlags& flags) {
  std::vector<Claim> claims;
  for (std::optional<Claim>& claim :
       std::array{flags_claim(flags), tf_config_claim(environment), torchrun_claim(environment),
                  open_mpi_claim(environment), pmi_claim(environment), slurm_claim(environment)})
    if (claim) claims.push_back(std::move(*claim));
  return claims;
}

}  // namespace penstock::cluster
