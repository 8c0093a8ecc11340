#include "cluster/launchers.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "cluster/listed.h"
#include "cluster/members.h"
#include "cluster/refuse.h"
#include "cluster/slurm.h"

namespace penstock::cluster {
namespace {

/// More processes than any job has. Each has an entry in the list of peers.
constexpr int kMostProcesses = 1 << 20;

std::optional<Claim> torchrun_claim(const Environment& environment) {
  std::optional<Claim> claim = numbered_claim(environment, kTorchrun);
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
  std::optional<Claim> claim = numbered_claim(environment, kOpenMpi);
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
  std::optional<Claim> claim = numbered_claim(environment, kPmi);
  if (claim) claim->may_be_outer = true;
  return claim;
}

}  // namespace

std::string secret_of_launcher(const Environment& environment, const Cluster& cluster) {
  const std::string* key = environment.find("OMPI_MCA_orte_precondition_transports");
  return key != nullptr && cluster.source == kOpenMpi.launcher ? *key : std::string();
}

std::string said(const Environment& environment, std::string_view name) {
  return std::string(name) + "=" + *environment.find(name);
}

std::string port_of(std::uint64_t job) {
  constexpr std::uint64_t kFirst = 20'000;
  constexpr std::uint64_t kCount = 10'000;
  return std::to_string(kFirst + job % kCount);
}

std::optional<Claim> numbered_claim(const Environment& environment,
                                    const LauncherVariables& names) {
  const std::optional<int> rank = environment.number(names.rank);
  const std::optional<int> world = environment.number(names.world, 1);
  if (!rank && !world) return std::nullopt;
  if (!rank || !world)
    refuse(said(environment, rank ? names.rank : names.world) + " is set, but " +
           (rank ? names.world : names.rank) + " is not: set both or neither");
  Claim claim;
  claim.rank_said = said(environment, names.rank);
  claim.world_said = said(environment, names.world);
  if (*rank >= *world)
    refuse(claim.rank_said + " and " + claim.world_said +
           " contradict each other: ranks start at 0");
  if (*world > kMostProcesses)
    refuse(claim.world_said + " is more than " + std::to_string(kMostProcesses) + " processes");
  Cluster& cluster = claim.cluster;
  cluster.source = names.launcher;
  cluster.rank = *rank;
  cluster.world = *world;
  cluster.role = *rank == 0 ? Role::chief : Role::worker;
  cluster.index = *rank == 0 ? 0 : *rank - 1;
  cluster.local_rank = environment.number(names.local_rank).value_or(0);
  if (cluster.local_rank >= cluster.world)
    refuse(said(environment, names.local_rank) + " and " + claim.world_said +
           " contradict each other: more processes on one host than in all");
  cluster.local_world = environment.number(names.local_world, 1).value_or(cluster.local_rank + 1);
  if (cluster.local_rank >= cluster.local_world)
    refuse(said(environment, names.local_rank) + " and " + said(environment, names.local_world) +
           " contradict each other: local ranks start at 0");
  if (cluster.local_world > cluster.world)
    refuse(said(environment, names.local_world) + " and " + claim.world_said +
           " contradict each other: more processes on one host than in all");
  for (int r = 0; r < *world; ++r)
    cluster.peers.push_back({r == 0 ? Role::chief : Role::worker, r == 0 ? 0 : r - 1, {}});
  return claim;
}

std::vector<Claim> claims_in(const Environment& environment) {
  std::vector<Claim> claims;
  for (std::optional<Claim>& claim :
       std::array{tf_config_claim(environment), torchrun_claim(environment),
                  open_mpi_claim(environment), pmi_claim(environment), slurm_claim(environment)})
    if (claim) claims.push_back(std::move(*claim));
  return claims;
}

}  // namespace penstock::cluster
