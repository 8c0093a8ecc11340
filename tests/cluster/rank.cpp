// One rank of a job, for tests that kill it: meets the others, says so, and waits for the end, or
// adds up with them until then.
//   cluster_rank ADDRESS RANK WORLD PEER_TIMEOUT_MS wait|ordered|ring|grpc
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "cluster/process_group.h"

namespace {

void add_up(penstock::cluster::Rendezvous& rendezvous, const penstock::cluster::Cluster& cluster,
            const std::string& exchange) {
  using namespace penstock::cluster;
  ProcessGroupOptions options;
  if (exchange == "grpc") {
    options.transport = Transport::grpc;
  } else {
    options.exchange = parse_exchange(exchange);
  }
  const auto group = open_process_group(rendezvous, cluster, options);
  std::puts("joined");
  std::fflush(stdout);
  std::vector<float> values(1'000'003);
  for (;;) {
    std::ranges::fill(values, 1.0F);
    group->sum(values);
    for (const float value : values) {
      if (value == static_cast<float>(cluster.world)) continue;
      std::printf("a wrong sum: %f\n", static_cast<double>(value));
      std::exit(3);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace penstock;
  if (argc != 6) return 2;
  ::alarm(60);
  cluster::Cluster cluster;
  cluster.rendezvous = argv[1];
  if (cluster.rendezvous.find("://") == std::string::npos)
    cluster.rendezvous = "grpc://" + cluster.rendezvous;
  cluster.rank = std::atoi(argv[2]);
  cluster.world = std::atoi(argv[3]);
  cluster::RendezvousOptions options;
  options.peer_timeout = std::chrono::milliseconds(std::atoi(argv[4]));
  options.join_timeout = std::chrono::seconds(20);
  bool joined = false;
  try {
    const auto rendezvous = cluster::open_rendezvous(cluster, options);
    rendezvous->join({{"version", "1"}});
    joined = true;
    if (argv[5] != std::string("wait")) add_up(*rendezvous, cluster, argv[5]);
    std::puts("joined");
    std::fflush(stdout);
    while (rendezvous->status().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::printf("%s\n", rendezvous->status().error().what());
    return 75;
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return joined ? 75 : 1;
  }
}
