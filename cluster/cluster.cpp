#include "cluster/cluster.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <penstock/error.h>

#include "cluster/etcd_address.h"
#include "cluster/hints.h"
#include "cluster/launchers.h"
#include "cluster/listed.h"
#include "cluster/members.h"
#include "cluster/refuse.h"

namespace penstock::cluster {
namespace {

constexpr const char* kAlone = "PENSTOCK_ALONE";

void check_rendezvous(const std::string& text) {
  constexpr std::string_view kScheme = "grpc://";
  const std::string what = "--rendezvous " + text;
  if (text.starts_with(kEtcdScheme)) {
    for (const std::string& member : parse_etcd_address(text, what).members)
      check_address(member, what);
    return;
  }
  if (!text.starts_with(kScheme))
    refuse(what + ": expected grpc://HOST:PORT or etcd://HOST:PORT/JOB");
  check_address(std::string_view(text).substr(kScheme.size()), what);
}

void check_agreement(const Claim& first, const Claim& other, bool inner) {
  if (inner && other.may_be_outer) return;
  if (!first.cluster.trains() || !other.cluster.trains()) return;
  if (first.cluster.rank != other.cluster.rank)
    refuse(first.rank_said + " and " + other.rank_said +
           " contradict each other: which rank is this process? Unset the wrong one");
  if (first.cluster.world != other.cluster.world)
    refuse(first.world_said + " and " + other.world_said +
           " contradict each other: how many processes train? Unset the wrong one");
}

void check_pmix(const Environment& environment, const Claim& claim) {
  if (claim.cluster.source != "Open MPI" && claim.cluster.source != "Slurm") return;
  const std::optional<int> rank = environment.number("PMIX_RANK");
  if (rank && *rank != claim.cluster.rank)
    refuse("PMIX_RANK=" + std::to_string(*rank) + " and " + claim.rank_said +
           " contradict each other: which rank is this process?");
}

/// True if the user says that this process is alone, whatever launchers say.
bool is_alone(const Environment& environment) {
  const std::string* said = environment.find(kAlone);
  if (said == nullptr || *said == "0") return false;
  if (*said != "1")
    refuse(std::string(kAlone) + "=" + *said + " must be 1, for a single process, or 0");
  return true;
}

Cluster alone(const std::string& source) {
  Cluster cluster;
  cluster.source = source;
  cluster.peers = {{Role::chief, 0, {}}};
  return cluster;
}

/// Throws unless all claims describe the same job.
void check_agreements(const Environment& environment, const std::vector<Claim>& claims) {
  const Claim& first = claims.front();
  // These sources need not agree. A list gives members their places by itself. torchrun starts
  // processes of its own in the places of others. mpirun's daemons have the numbers of Slurm's
  // tasks.
  const bool listed = first.cluster.source == "--cluster" || first.cluster.source == "TF_CONFIG";
  const bool elastic = environment.has("TORCHELASTIC_RUN_ID");
  for (std::size_t i = 1; i < claims.size(); ++i) {
    const bool slurm = claims[i].cluster.source == "Slurm";
    const bool daemon = first.cluster.source == "Open MPI" && slurm;
    // The tasks of a step that all have the same list of one would each train alone.
    if (listed && slurm && first.cluster.trains() && first.cluster.peers.size() == 1 &&
        claims[i].cluster.rank > 0)
      refuse(first.rank_said + " and " + claims[i].rank_said +
             " contradict each other: the list has no other member. Unset the wrong one");
    check_agreement(first, claims[i],
                    (listed && slurm) || (elastic && first.cluster.source == "torchrun") || daemon);
  }
  check_pmix(environment, first);
}

/// Returns the job from what `flags` claim, if they claim something, and the environment.
Cluster resolved(const Environment& environment, const ClusterFlags& flags,
                 const std::optional<Claim>& flagged) {
  std::vector<Claim> claims = claims_in(environment);
  if (flagged) claims.insert(claims.begin(), *flagged);
  if (claims.empty()) {
    refuse_hints(environment);
    if (flags.rank) refuse("--rank needs --cluster, which lists the other ranks");
    return alone("none");
  }
  if (flags.cluster.empty() && flags.rank)
    refuse(
        "--rank " + std::to_string(*flags.rank) + " and " + claims.front().rank_said +
        " contradict each other: without --cluster, the environment sets the rank of this process");
  check_agreements(environment, claims);
  // srun --mpi=pmi2 sets PMI's variables, too. Only Slurm's tell where the ranks meet.
  const bool both =
      claims.front().cluster.source == "PMI" && claims.back().cluster.source == "Slurm";
  Cluster cluster = std::move((both ? claims.back() : claims.front()).cluster);
  if (cluster.source == "--cluster") cluster.source = "flags";
  if (!flags.rendezvous.empty()) cluster.rendezvous = flags.rendezvous;
  if (cluster.world == 1 && cluster.peers.size() == 1 && cluster.trains())
    cluster.rendezvous.clear();
  if (cluster.world > 1 && cluster.rendezvous.empty())
    refuse(cluster.source + " starts " + std::to_string(cluster.world) +
           " processes, but sets no rendezvous: " +
           (cluster.source == "torchrun" ? "set MASTER_ADDR and MASTER_PORT, or give " : "give ") +
           "--rendezvous grpc://HOST:PORT with the host of rank 0");
  return cluster;
}

}  // namespace

Cluster resolve(const Environment& environment, const ClusterFlags& flags) {
  if (!flags.rendezvous.empty()) check_rendezvous(flags.rendezvous);
  const std::optional<Claim> flagged = claim_in(flags);
  if (is_alone(environment)) {
    if (!flags.cluster.empty() || flags.rank)
      refuse(std::string(kAlone) + "=1 means a single process, but " +
             (flags.rank ? "--rank" : "--cluster") + " means several: remove one of the two");
    return flagged ? flagged->cluster : alone(kAlone);
  }
  if (!flags.cluster.empty()) return resolved(environment, flags, flagged);
  try {
    return resolved(environment, flags, flagged);
  } catch (const Error& error) {
    throw Error(error.code(), error.cause() + "; for a single process, set " + kAlone + "=1");
  }
}

bool Cluster::lists(Role listed) const noexcept {
  return std::ranges::find(peers, listed, &Peer::role) != peers.end();
}

int Cluster::computing_here() const {
  const auto me = std::ranges::find_if(
      peers, [this](const Peer& peer) { return peer.role == role && peer.index == index; });
  if (me == peers.end() || me->address.empty()) return local_world;
  const auto host_of = [](const Peer& peer) {
    return std::string_view(peer.address).substr(0, peer.address.rfind(':'));
  };
  const auto count = std::ranges::count_if(peers, [&](const Peer& peer) {
    return peer.role != Role::parameter_server && host_of(peer) == host_of(*me);
  });
  return std::max(1, static_cast<int>(count));
}

bool Cluster::is_on_one_host() const {
  const std::size_t scheme = rendezvous.find("://");
  if (scheme == std::string::npos) return true;  // alone
  const std::string_view host = std::string_view(rendezvous).substr(scheme + 3);
  return host.starts_with("localhost:") || host.starts_with("127.") || host.starts_with("[::1]:");
}

std::vector<int> devices_of(const Cluster& cluster, int visible, const Environment& environment) {
  const bool own = cluster.local_world == 1 || environment.has("SLURM_GPUS_PER_TASK") ||
                   (visible == 1 && environment.has("CUDA_VISIBLE_DEVICES"));
  const int share = own ? visible : visible / cluster.local_world;
  if (!own && visible % cluster.local_world != 0)
    refuse(std::to_string(visible) + " cuda devices can't be divided among " +
           std::to_string(cluster.local_world) +
           " processes on this host: set CUDA_VISIBLE_DEVICES for each");
  std::vector<int> devices;
  for (int i = 0; i < share; ++i) devices.push_back(own ? i : cluster.local_rank * share + i);
  return devices;
}

std::string own_device(const Cluster& cluster, const Environment& environment) {
  const std::string* visible = environment.find("CUDA_VISIBLE_DEVICES");
  const bool own = environment.has("SLURM_GPUS_PER_TASK") ||
                   (visible != nullptr && visible->find(',') == std::string::npos);
  return "cuda:" + std::to_string(own ? 0 : cluster.local_rank);
}

std::string describe(const Cluster& cluster) {
  std::string text =
      "role        " + std::string(name_of(cluster.role)) + " " + std::to_string(cluster.index);
  if (cluster.trains()) {
    text += ", rank " + std::to_string(cluster.rank) + " of " + std::to_string(cluster.world);
    if (cluster.world > 1)
      text += ", on this host " + std::to_string(cluster.local_rank) + " of " +
              std::to_string(cluster.local_world);
  }
  text += "\nsaid by     " + cluster.source + "\n";
  if (!cluster.rendezvous.empty()) text += "rendezvous  " + cluster.rendezvous + "\n";
  for (const Peer& peer : cluster.peers) {
    if (peer.address.empty()) continue;
    const std::string who = std::string(name_of(peer.role)) + " " + std::to_string(peer.index);
    text += "  " + who + std::string(who.size() < 12 ? 12 - who.size() : 1, ' ') + peer.address;
    text += peer.role == cluster.role && peer.index == cluster.index ? "  (this process)\n" : "\n";
  }
  return text;
}

}  // namespace penstock::cluster
