// Links between a run and an input worker of the same machine and user: a Unix socket instead of
// the network, and shared memory for elements.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <penstock/internal/worker_links.h>

namespace penstock::remote {

/// Connects to the worker at "host:port" if that is on loopback, and if a worker of this user
/// listens there with `listen_locally`. Null otherwise: it must be reached by the network. The link
/// is as those of WorkerTransport::connect, but a listener that takes longer than half of `timeout`
/// for a message counts as silence. Throws Error{resource_exhausted} if there is no thread for it.
std::unique_ptr<WorkerLink> connect_locally(const std::string& address,
                                            std::chrono::milliseconds timeout,
                                            LinkListener& listener);

/// Accepts links of this user's runs, in addition to the port that the worker has at `address`.
/// Null if `address` is not on loopback or if the system does not let it listen. Other users are
/// not accepted.
std::unique_ptr<WorkerPort> listen_locally(const std::string& address, AcceptLink accept);

}  // namespace penstock::remote
