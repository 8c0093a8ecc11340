// One rank of the all-reduce benchmark: bench/exchange.py starts as many as there are ranks.
//   penstock_exchange_bench ADDRESS RANK WORLD < commands
// A command is a line "ring|ordered|grpc CALLS FLOATS TIMES": as many sums of as many floats, one
// behind the other, done so many times behind one that does not count. Answers the mean seconds of
// one time, and those of CPU time. "small CALLS FLOATS TIMES" sums gradients as towers do, which
// lie one behind the other: in one piece.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cluster/process_group.h"

namespace {

using namespace penstock::cluster;

std::unique_ptr<ProcessGroup> open_group(Rendezvous& rendezvous, const Cluster& cluster,
                                         Exchange exchange, Transport transport = Transport::gloo) {
  ProcessGroupOptions options;
  options.name = std::string(name_of(exchange)) + " " + std::string(name_of(transport));
  options.exchange = exchange;
  options.transport = transport;
  return open_process_group(rendezvous, cluster, options);
}

struct Seconds {
  double wall, cpu;
};

Seconds seconds_of(ProcessGroup& group, std::span<float> values, std::size_t calls, int times) {
  const auto once = [&] {
    for (std::size_t call = 0; call < calls; ++call)
      group.sum(values.subspan(call * (values.size() / calls), values.size() / calls));
  };
  once();
  const std::clock_t cpu = std::clock();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) once();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return {took.count() / times, static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC / times};
}

void serve(const Cluster& cluster) {
  const auto rendezvous = open_rendezvous(cluster, {});
  rendezvous->join({});
  const auto ring = open_group(*rendezvous, cluster, Exchange::ring);
  const auto ordered = open_group(*rendezvous, cluster, Exchange::ordered);
  const auto grpc = open_group(*rendezvous, cluster, Exchange::ring, Transport::grpc);
  std::puts("ready");
  std::fflush(stdout);
  std::string how;
  std::size_t calls = 0;
  std::size_t floats = 0;
  int times = 0;
  while (std::cin >> how >> calls >> floats >> times) {
    // Zeros stay zeros, however often they are added up.
    std::vector<float> values(calls * floats);
    ProcessGroup& group = how == "ordered" ? *ordered : how == "grpc" ? *grpc : *ring;
    const Seconds took = seconds_of(group, values, how == "small" ? 1 : calls, times);
    std::printf("%.9f %.9f\n", took.wall, took.cpu);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("penstock_exchange_bench ADDRESS RANK WORLD < commands\n", stderr);
    return 2;
  }
  Cluster cluster;
  cluster.rendezvous = std::string("grpc://") + argv[1];
  cluster.rank = std::atoi(argv[2]);
  cluster.world = std::atoi(argv[3]);
  try {
    serve(cluster);
  } catch (const penstock::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
