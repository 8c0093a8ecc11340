#include "tools/penstock/commands/cluster_flags.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>

#include <penstock/report.h>

#include "cluster/launchers.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/commands/checks.h"
#include "tools/penstock/run/build.h"

namespace penstock::tool {
namespace {

/// Converts seconds to milliseconds, and limits them to ten days, which is as good as for ever.
std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(std::clamp(seconds, 0.001, 864'000.0) * 1000));
}

}  // namespace

void ClusterFlags::add_to(CLI::App& app) {
  const std::string group = "Cluster";
  const auto add = [&](const char* flag, auto& value, const char* type, const char* help) {
    return app.add_option(flag, value, help)->type_name(type)->group(group);
  };
  add("--cluster", flags_.cluster, "LIST",
      "members: ROLE=HOST:PORT,…;ROLE=…, or JSON as in TF_CONFIG (default: from the launcher's "
      "environment, unless PENSTOCK_ALONE=1)");
  add("--role", flags_.role, "ROLE", "chief, worker, ps or evaluator");
  add("--rank", flags_.rank, "N", "this process's index among those of its role, from 0");
  add("--rendezvous", flags_.rendezvous, "URL",
      "where ranks meet: grpc://HOST:PORT of rank 0, or etcd://HOST:PORT[,HOST:PORT]/JOB");
  add("--tls-cert", tls_.certificate, "FILE", "PEM file with this process's certificate");
  add("--tls-key", tls_.key, "FILE", "PEM file with the private key of that certificate");
  add("--tls-ca", tls_.authority, "FILE", "PEM file with the trusted CA certificates");
  add("--token-file", token_file_, "FILE",
      "file with the job's token (default: $PENSTOCK_TOKEN); required beyond loopback");
  add("--peer-timeout", peer_timeout_s_, "S",
      "a rank without a heartbeat for this long counts as lost (default 10)")
      ->check(above_zero());
}

void ClusterFlags::add_exchange_to(CLI::App& app) {
  const std::string group = "Cluster";
  app.add_option("--join-timeout", join_timeout_s_,
                 "how long ranks wait for each other at the start (default 300)")
      ->type_name("S")
      ->group(group)
      ->check(above_zero());
  app.add_option("--exchange", exchange_,
                 "ordered (default): bit-identical to one process; ring: the usual all-reduce")
      ->type_name("HOW")
      ->group(group)
      ->check(CLI::IsMember({"ordered", "ring"}));
  app.add_option("--compress", compress_,
                 "none (default) or bf16, which rounds gradients to send half the bytes; not with "
                 "--deterministic")
      ->type_name("HOW")
      ->group(group)
      ->check(CLI::IsMember({"none", "bf16"}));
  app.add_option("--exchange-transport", transport_,
                 "gloo: plain TCP; grpc: TLS (default: gloo on a single host or with "
                 "--exchange-interface, else grpc)")
      ->type_name("NAME")
      ->group(group)
      ->check(CLI::IsMember({"gloo", "grpc"}));
  app.add_option("--exchange-interface", interface_,
                 "network interface for gloo and NCCL (default: loopback)")
      ->type_name("IF")
      ->group(group);
  app.add_flag("--insecure-exchange", insecure_, "allow unencrypted gradients on that interface")
      ->group(group);
}

cluster::Cluster ClusterFlags::resolve() const {
  return cluster::resolve(cluster::Environment::of_process(), flags_);
}

std::string ClusterFlags::devices(const std::string& list) const {
  return list == "cuda" ? cluster::own_device(resolve(), cluster::Environment::of_process()) : list;
}

cluster::RendezvousOptions ClusterFlags::rendezvous() const {
  cluster::RendezvousOptions options;
  options.tls = tls_;
  options.peer_timeout = milliseconds_of(peer_timeout_s_);
  options.join_timeout = milliseconds_of(join_timeout_s_);
  if (!token_file_.empty()) {
    options.token = token_in(token_file_);
  } else if (const char* token = std::getenv("PENSTOCK_TOKEN")) {
    options.token = token;  // which launchers carry to all processes
  } else {
    options.token = cluster::secret_of_launcher(cluster::Environment::of_process(), resolve());
  }
  return options;
}

cluster::Transport ClusterFlags::transport(const cluster::Cluster& cluster) const {
  if (transport_ == "grpc" && !interface_.empty())
    throw UsageError("applies to gloo and NCCL, not to grpc", "--exchange-interface");
  if (!transport_.empty()) return cluster::parse_transport(transport_);
  return cluster.is_on_one_host() || !interface_.empty() ? cluster::Transport::gloo
                                                         : cluster::Transport::grpc;
}

// A run makes the path of PENSTOCK_REPORT, and the first one, which reads the fingerprint of the
// data, comes before the processes meet.
cluster::Cluster ClusterFlags::resolve_for_reports() const {
  cluster::Cluster cluster = resolve();
  if (cluster.world > 1) set_report_rank(cluster.rank, cluster.world);
  return cluster;
}

std::unique_ptr<cluster::Job> ClusterFlags::join(const cluster::Facts& facts) const {
  const cluster::Cluster cluster = resolve();
  if (cluster.world == 1) return nullptr;
  cluster::ProcessGroupOptions group;
  group.exchange = cluster::parse_exchange(exchange_);
  group.compress = cluster::parse_compress(compress_);
  group.transport = transport(cluster);
  group.interface = interface_;
  group.insecure = insecure_;
  cluster::Facts all = facts;
  all["exchange"] = exchange_;
  all["compress"] = compress_;
  all["exchange transport"] = cluster::name_of(group.transport);
  return std::make_unique<cluster::Job>(cluster, rendezvous(), group, all);
}

}  // namespace penstock::tool
