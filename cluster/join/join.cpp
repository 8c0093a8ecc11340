#include <penstock/towers/join.h>

#include <penstock/error.h>

#include "cluster/job.h"

namespace penstock::towers {

std::unique_ptr<Peers> join(const JoinOptions& options) {
  const cluster::Cluster who =
      cluster::resolve(cluster::Environment::of_process(),
                       {options.cluster, options.role, options.rank, options.rendezvous});
  if (!who.trains())
    throw Error(ErrorCode::invalid_argument, "a process of role " +
                                                 std::string(cluster::name_of(who.role)) +
                                                 " does not train: run it with `penstock train`");
  if (who.world == 1) return nullptr;
  cluster::RendezvousOptions rendezvous;
  rendezvous.tls = {options.tls_certificate, options.tls_key, options.tls_authority};
  rendezvous.token = options.token;
  rendezvous.peer_timeout = options.peer_timeout;
  rendezvous.join_timeout = options.join_timeout;
  cluster::ProcessGroupOptions group;
  group.exchange = cluster::parse_exchange(options.exchange);
  group.compress = cluster::parse_compress(options.compress);
  const bool in_the_clear = who.is_on_one_host() || !options.interface.empty();
  group.transport = !options.transport.empty() ? cluster::parse_transport(options.transport)
                    : in_the_clear             ? cluster::Transport::gloo
                                               : cluster::Transport::grpc;
  group.interface = options.interface;
  group.insecure = options.insecure;
  cluster::Facts facts(options.facts.begin(), options.facts.end());
  facts["exchange"] = options.exchange;
  facts["compress"] = options.compress;
  facts["exchange transport"] = cluster::name_of(group.transport);
  return std::make_unique<cluster::Job>(who, rendezvous, group, facts);
}

}  // namespace penstock::towers
