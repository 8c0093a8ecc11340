// The ranks of a job, as threads of a test.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/rendezvous.h"
#include "tests/cluster/free_address.h"

namespace penstock::cluster::test {

using penstock::test::free_address;

/// Returns the place of a rank. `address`: of a rendezvous by gRPC, unless it names another scheme.
inline Cluster rank_of(const std::string& address, int rank, int world) {
  Cluster cluster;
  cluster.rendezvous = (address.find("://") == std::string::npos ? "grpc://" : "") + address;
  cluster.rank = rank;
  cluster.world = world;
  return cluster;
}

inline RendezvousOptions options_of(std::chrono::milliseconds join = std::chrono::seconds(20)) {
  RendezvousOptions options;
  options.peer_timeout = std::chrono::seconds(5);
  options.join_timeout = join;
  return options;
}

inline std::string error_of(const std::function<void()>& act) {
  try {
    act();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Runs `body` for each rank on its own thread. Returns the text of each rank's error.
inline std::vector<std::string> on_all(int world, const std::function<void(int)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(world));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back(
        [&, rank] { errors[static_cast<std::size_t>(rank)] = error_of([&] { body(rank); }); });
  threads.clear();
  return errors;
}

}  // namespace penstock::cluster::test
