// The ways in which runs and input workers are connected, for tests that hold for each.
#pragma once

#include <chrono>
#include <memory>
#include <ostream>
#include <string>

#include <penstock/worker_links.h>

#include "cluster/net/worker_transport.h"
#include "pipeline/remote/local_link.h"
#include "tests/cluster/free_address.h"

namespace penstock::cluster::test {

struct LinkWay {
  const char* name;
  std::unique_ptr<WorkerPort> (*listen_at)(const std::string& address, AcceptLink accept);
  /// Null if nobody of this way is there.
  std::unique_ptr<WorkerLink> (*connect)(const std::string& address,
                                         std::chrono::milliseconds timeout, LinkListener& listener);

  std::unique_ptr<WorkerPort> listen(AcceptLink accept) const {
    return listen_at(penstock::test::free_address(), std::move(accept));
  }
  friend void PrintTo(const LinkWay& way, std::ostream* out) { *out << way.name; }
};

inline const LinkWay kLinkWays[] = {
    {"network",
     [](const std::string& address, AcceptLink accept) {
       return listen_for_runs(address, {}, std::move(accept));
     },
     [](const std::string& address, std::chrono::milliseconds timeout, LinkListener& listener) {
       return connect_to_worker(address, {}, timeout, listener);
     }},
    {"local", remote::listen_locally, remote::connect_locally},
};

}  // namespace penstock::cluster::test
