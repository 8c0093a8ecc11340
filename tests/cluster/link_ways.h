// The ways in which runs and input workers are connected, for tests that hold for each.
#pragma once

#include <chrono>
#include <memory>
#include <ostream>
#include <string>

#include <penstock/internal/worker_links.h>

#include "cluster/net/worker_transport.h"
#include "pipeline/remote/local_link.h"
#include "tests/cluster/free_address.h"

namespace penstock::cluster::test {

struct LinkWay {
  const char* name;
  std::string (*free)();  ///< an address to listen at
  std::unique_ptr<WorkerPort> (*listen_at)(const std::string& address, AcceptLink accept);
  /// Null if no worker listens in this way.
  std::unique_ptr<WorkerLink> (*connect)(const std::string& address,
                                         std::chrono::milliseconds timeout, LinkListener& listener);

  std::unique_ptr<WorkerPort> listen(AcceptLink accept) const {
    return listen_at(free(), std::move(accept));
  }
  friend void PrintTo(const LinkWay& way, std::ostream* out) { *out << way.name; }
};

inline const LinkWay kLinkWays[] = {
    {"network", [] { return std::string("127.0.0.1:0"); },
     [](const std::string& address, AcceptLink accept) {
       return listen_for_runs(address, {}, std::move(accept));
     },
     [](const std::string& address, std::chrono::milliseconds timeout, LinkListener& listener) {
       return connect_to_worker(address, {}, timeout, listener);
     }},
    {"local", penstock::test::free_address, remote::listen_locally, remote::connect_locally},
};

}  // namespace penstock::cluster::test
